package chunk

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"halite/keyschema/chunktest"
	"halite/keyschema/column"
)

// TestFormat pins the bytes of chunks and checks that FORMAT.md shows each example exactly. The first line of an
// example has the timestamps: offsets in the hour, or "every A from B"; the others have the values.
func TestFormat(t *testing.T) {
	chunktest.CheckFormat(t, "../FORMAT.md", func(t *testing.T, d *datadriven.TestData) string {
		times, rest, _ := strings.Cut(d.Input, "\n")
		values := chunktest.ScanValues(t, strings.Fields(rest))
		packed := checkRoundTrip(t, 0, chunktest.ScanTimes(t, strings.Fields(times), len(values)), values)
		return describe(t, packed) + hex.Dump(packed)
	})
}

var modeNames = map[column.Mode]string{
	column.ModeConst: "const", column.ModeFrame: "frame", column.ModeDelta: "delta",
	column.ModeZigzag: "zigzag", column.ModeZigzag2: "zigzag2", column.ModeXor: "xor",
}

// describe returns the contents of a chunk's header in words.
func describe(t *testing.T, packed []byte) string {
	h, src, err := parseHeader(packed)
	if err != nil {
		t.Fatal(err)
	}
	words := []string{fmt.Sprintf("%d samples in %d bytes", h.count, len(packed))}
	var d Decoder
	if h.first&flagIrregular != 0 {
		word := "timestamps: " + modeNames[column.Mode(src[0]&column.ModeMask)]
		if src[0]&flagGrid != 0 {
			word += " of distances from a grid"
		}
		words = append(words, word)
		if _, src, err = d.decodeIrregular(src, &h, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	if h.first&flagExceptions != 0 {
		var listed int
		if src, listed, err = d.readExceptions(src, h.count); err != nil {
			t.Fatal(err)
		}
		words = append(words, fmt.Sprintf("%d exceptions", listed))
	}
	if len(src) > 0 {
		word, exponent := "values: "+modeNames[column.Mode(src[0]&column.ModeMask)], int(src[0]>>scaleShift&scaleMask)
		if exponent == scaleNear {
			word += " of near decimals"
		}
		if src[0]&column.FlagStep != 0 {
			word += " with a step"
		}
		switch exponent {
		case scaleRaw:
			word += " of bit patterns"
		case scaleNear, scaleLong:
			word += fmt.Sprintf(", exponent %d", src[1])
		default:
			word += fmt.Sprintf(", exponent %d", exponent)
		}
		words = append(words, word)
	}
	return strings.Join(words, "; ") + "\n"
}
