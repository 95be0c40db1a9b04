package chunktest

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// CheckFormat pins the bytes of the examples in testdata/format and checks that the document shows each example. encode
// returns the bytes of an example as text.
func CheckFormat(t *testing.T, document string, encode func(t *testing.T, d *datadriven.TestData) string) {
	t.Helper()
	shown, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	datadriven.RunTest(t, "testdata/format", func(t *testing.T, d *datadriven.TestData) string {
		out := encode(t, d)
		example := strings.TrimSpace(fmt.Sprintf("%s\n----\n%s", strings.TrimSpace(d.Input), out))
		if !rewriting() && !strings.Contains(string(shown), example) {
			t.Errorf("%s: %s does not show\n%s", d.Pos, document, example)
		}
		return out
	})
}

// rewriting reports whether go test -rewrite is writing the examples. The document cannot show them yet.
func rewriting() bool {
	rewrite := flag.Lookup("rewrite")
	return rewrite != nil && rewrite.Value.String() == "true"
}
