package exemplar

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema/chunktest"
)

// TestFormat pins the bytes of records and lists and checks that FORMAT.md shows each example exactly. A line of an example
// is the time, the value, and the labels.
func TestFormat(t *testing.T) {
	chunktest.CheckFormat(t, "FORMAT.md", func(t *testing.T, d *datadriven.TestData) string {
		var list []Exemplar
		for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
			fields := strings.Fields(line)
			e := Exemplar{Labels: labels.EmptyLabels()}
			_, err := fmt.Sscan(line, &e.TsMs, &e.Value)
			require.NoError(t, err)
			var pairs []string
			for _, field := range fields[2:] {
				name, value, _ := strings.Cut(field, "=")
				pairs = append(pairs, name, value)
			}
			e.Labels = labels.FromStrings(pairs...)
			list = append(list, e)
		}
		if d.Cmd == "record" {
			return hex.Dump(AppendRecord(nil, list[0]))
		}
		encoded, err := new(Encoder).Append(nil, 0, list)
		require.NoError(t, err)
		got, err := new(Decoder).Decode(encoded, 0, nil)
		require.NoError(t, err)
		requireSame(t, list, got)
		return hex.Dump(encoded)
	})
}
