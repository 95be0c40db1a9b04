package storagetest

import "testing"

func testMetamorphic(t *testing.T, s *suite) {}
