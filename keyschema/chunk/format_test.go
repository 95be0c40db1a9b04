package chunk

import (
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestFormat pins the bytes of chunks and checks that FORMAT.md shows each example as it is. The first line of an
// example has the timestamps: offsets in the hour, or "every A from B"; the others have the values.
func TestFormat(t *testing.T) {
	document, err := os.ReadFile("../FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	datadriven.RunTest(t, "testdata/format", func(t *testing.T, d *datadriven.TestData) string {
		times, rest, _ := strings.Cut(d.Input, "\n")
		values := scanValues(t, strings.Fields(rest))
		packed := checkRoundTrip(t, 0, scanTimes(t, strings.Fields(times), len(values)), values)
		out := describe(t, packed) + hex.Dump(packed)
		example := strings.TrimSpace(fmt.Sprintf("%s\n----\n%s", strings.TrimSpace(d.Input), out))
		if !rewriting() && !strings.Contains(string(document), example) {
			t.Errorf("%s: FORMAT.md does not show\n%s", d.Pos, example)
		}
		return out
	})
}

func scanTimes(t *testing.T, words []string, n int) []int64 {
	if words[0] == "every" {
		interval, base := scanInt(t, words[1]), scanInt(t, words[3])
		tsMs := make([]int64, n)
		for i := range tsMs {
			tsMs[i] = base + int64(i)*interval
		}
		return tsMs
	}
	var tsMs []int64
	for _, word := range words {
		tsMs = append(tsMs, scanInt(t, word))
	}
	return tsMs
}

func scanInt(t *testing.T, word string) int64 {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// scanValues reads numbers (0x1.8p-3 too), bit patterns in hexadecimal, "stale", and any of these times a count.
func scanValues(t *testing.T, words []string) []float64 {
	var values []float64
	for _, word := range words {
		text, times, repeated := strings.Cut(word, "*")
		v, err := strconv.ParseFloat(text, 64)
		switch {
		case text == "stale":
			v, err = math.Float64frombits(specialPatterns[specialStale]), nil
		case err != nil && strings.HasPrefix(text, "0x"):
			var pattern uint64
			pattern, err = strconv.ParseUint(text[2:], 16, 64)
			v = math.Float64frombits(pattern)
		}
		if err != nil {
			t.Fatal(err)
		}
		n := int64(1)
		if repeated {
			n = scanInt(t, times)
		}
		for range n {
			values = append(values, v)
		}
	}
	return values
}

var modeNames = map[mode]string{
	modeConst: "const", modeFrame: "frame", modeDelta: "delta",
	modeZigzag: "zigzag", modeZigzag2: "zigzag2", modeXor: "xor",
}

// describe says in words what the head of a chunk says in bits.
func describe(t *testing.T, packed []byte) string {
	h, src, err := parseHead(packed)
	if err != nil {
		t.Fatal(err)
	}
	words := []string{fmt.Sprintf("%d samples in %d bytes", h.count, len(packed))}
	var d Decoder
	if h.first&flagIrregular != 0 {
		word := "timestamps: " + modeNames[mode(src[0]&modeMask)]
		if src[0]&flagGrid != 0 {
			word += " of distances from a grid"
		}
		words = append(words, word)
		if _, src, err = d.decodeIrregular(src, &h, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	if h.first&flagSpecials != 0 {
		var listed int
		if src, listed, err = d.specials(src, h.count); err != nil {
			t.Fatal(err)
		}
		words = append(words, fmt.Sprintf("%d special", listed))
	}
	if len(src) > 0 {
		word, exponent := "values: "+modeNames[mode(src[0]&modeMask)], int(src[0]>>scaleShift&scaleMask)
		if exponent == scaleNear {
			word += " of near decimals"
		}
		if src[0]&flagStep != 0 {
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

// rewriting reports whether the examples are being written anew, so that FORMAT.md cannot show them yet.
func rewriting() bool {
	rewrite := flag.Lookup("rewrite")
	return rewrite != nil && rewrite.Value.String() == "true"
}
