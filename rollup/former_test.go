package rollup

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// formerCells are cells of version 1, as its last encoder wrote them, each with the cell of this version of the same states.
func formerCells(t testing.TB) (pairs [][2][]byte) {
	t.Helper()
	text, err := os.ReadFile("testdata/former")
	require.NoError(t, err)
	for _, block := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		var pair [2][]byte
		for i, line := range strings.SplitN(block, "\n", 2) {
			pair[i], err = hex.DecodeString(line)
			require.NoError(t, err)
		}
		pairs = append(pairs, pair)
	}
	return pairs
}

// TestFormerCells: what was written before reads as ever, as a whole and field by field.
func TestFormerCells(t *testing.T) {
	pairs := formerCells(t)
	require.Greater(t, len(pairs), 15)
	var d Decoder
	for _, pair := range pairs {
		for bit := Fields(1); bit <= FieldsAll+1; bit <<= 1 {
			fields := bit & FieldsAll
			if fields == 0 {
				fields = FieldsAll
			}
			var columns [2]Columns
			for i, cell := range pair {
				columns[i].Reset(0, hourMs, 24, fields)
				stored, err := d.Decode(&columns[i], testRow, testQualifier, cell, 0, 24)
				require.NoError(t, err)
				require.Equal(t, FieldsAll, stored)
				require.Equal(t, i == 0, d.Former())
			}
			for h := range 24 {
				former, now := only(columns[0].State(h), fields), only(columns[1].State(h), fields)
				require.Equal(t, bitsOf(former), bitsOf(now), "hour %d, fields %x", h, fields)
			}
		}
	}
}
