package storagetest_test

import (
	"testing"
	"time"

	"halite/storage"
	"halite/storage/storagetest"
)

func TestModel(t *testing.T) {
	storagetest.Run(t, func(_ testing.TB, now func() time.Time) storage.Store { return storagetest.NewModel(now) },
		storagetest.Caps{})
}
