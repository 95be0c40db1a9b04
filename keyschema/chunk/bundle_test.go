package chunk

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"halite/keyschema"
)

// checkBundle packs the values and splits them again, with a Splitter that has been used.
func checkBundle(t testing.TB, s *Splitter, values [][]byte) []byte {
	t.Helper()
	blob := AppendBundle([]byte("before"), values)
	if string(blob[:6]) != "before" {
		t.Fatalf("AppendBundle overwrote what was there: %q", blob[:6])
	}
	blob = blob[6:]
	if err := s.Open(blob, len(values)); err != nil {
		t.Fatalf("%v\nvalues %x\nbundle %x", err, values, blob)
	}
	for _, i := range rand.Perm(len(values)) {
		if got := s.Append([]byte{1}, i); got[0] != 1 || !bytes.Equal(got[1:], values[i]) {
			t.Fatalf("value %d of %x comes back as %x", i, values, got[1:])
		}
	}
	plain := 1
	for _, v := range values {
		plain += len(v) + uvarintLen(uint64(len(v)))
	}
	if len(blob) > plain {
		t.Fatalf("%d bytes of values grow to %d", plain, len(blob))
	}
	return blob
}

// seriesHours packs hours of one series, newest first as rows lie.
func seriesHours(t testing.TB, c *fleetClass, seed uint64, rows, n int, intervalMs int64) [][]byte {
	t.Helper()
	hours, _ := fleetHours(seed, c, 1, rows, n, intervalMs)
	var values [][]byte
	for _, h := range hours[:rows] {
		packed, err := Append(nil, 0, h.tsMs, h.values)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, packed)
	}
	slices.Reverse(values)
	return values
}

// randomValue is a chunk of anything, or something that is none.
func randomValue(t testing.TB, r *rand.Rand) []byte {
	n := randomLength(r)
	values := make([]float64, n)
	randomValues(r, values)
	packed, err := Append(nil, 0, randomTimes(r, 0, n), values)
	if err != nil {
		t.Fatal(err)
	}
	switch r.IntN(6) {
	case 0: // cut off, or with bytes too many
		packed = packed[:r.IntN(len(packed)+1)]
	case 1:
		packed = append(packed, byte(r.Uint32()))
	case 2:
		for range 1 + r.IntN(3) {
			packed[r.IntN(len(packed))] ^= 1 << r.IntN(8)
		}
	case 3:
		packed = make([]byte, r.IntN(40))
		for i := range packed {
			packed[i] = byte(r.Uint32())
		}
	}
	return packed
}

func TestBundleRoundTrip(t *testing.T) {
	r := newRand(t)
	var s Splitter
	checkBundle(t, &s, nil)
	checkBundle(t, &s, [][]byte{{}})
	for range 600 {
		var values [][]byte
		switch r.IntN(3) {
		case 0:
			for range 1 + r.IntN(30) {
				values = append(values, randomValue(t, r))
			}
		default:
			c := &fleet[r.IntN(len(fleet))]
			interval := []int64{60_000, 15_000, 30_000, 1000, 7000}[r.IntN(5)]
			n := int(keyschema.HourMs / interval)
			if r.IntN(3) == 0 {
				n = 1 + r.IntN(n)
			}
			values = seriesHours(t, c, r.Uint64(), 1+r.IntN(24), n, interval)
			if r.IntN(3) == 0 {
				values[r.IntN(len(values))] = randomValue(t, r)
			}
		}
		checkBundle(t, &s, values)
	}
	many := make([][]byte, 700)
	for i := range many {
		many[i] = randomValue(t, r)
	}
	checkBundle(t, &s, many)
}

// TestBundleSizes checks how much smaller hours are together, for what a fleet has.
func TestBundleSizes(t *testing.T) {
	var s Splitter
	saved, chunks := 0.0, 0.0
	for i := range fleet {
		c := &fleet[i]
		size, alone := 0, 0
		for seed := range uint64(5) {
			values := seriesHours(t, c, seed, 24, 60, 60_000)
			size += len(checkBundle(t, &s, values))
			for _, v := range values {
				alone += len(v)
			}
		}
		t.Logf("%-16s %6.1f -> %6.1f bytes a chunk", c.name, float64(alone)/120, float64(size)/120)
		saved += float64(alone-size) / 120 * float64(c.series)
		chunks += float64(c.series)
		if c.kind == fleetConstant && size > 5*12 {
			t.Errorf("24 hours of a constant take %d bytes", size/5)
		}
	}
	if saved/chunks < 6 {
		t.Errorf("a chunk loses %.1f bytes of its head only", saved/chunks)
	}
}

func TestShapeAndSlopeNumbers(t *testing.T) {
	last := int64(-1)
	for number := range int64(2000) {
		s, ok := shapeOfNumber(number)
		if !ok {
			continue
		}
		if got := s.number(); got != number {
			t.Fatalf("shape %+v has number %d, not %d", s, got, number)
		}
		last = number
	}
	if last != 64*shapeSteps {
		t.Fatalf("the last shape has number %d", last)
	}
	for w := range uint8(65) {
		for base := uint8(1); base <= radixMax; base += 2 {
			s := shape{w, base}
			back, ok := shapeOfNumber(s.number())
			if fits := base == 1 || int(w)+bitsLen8(base) <= 64; ok != fits || ok && back != s {
				t.Fatalf("shape %+v comes back as %+v, %t", s, back, ok)
			}
		}
	}
	for _, s := range []int64{0, 1, -1, 255, 256, -511, 512, 1024, math.MinInt64, 511 << 54, -(257 << 40), 4096 * 3} {
		number, ok := slopeNumber(s)
		if back, ok2 := slopeOfNumber(number); !ok || !ok2 || back != s {
			t.Fatalf("slope %d has number %d, %t, and comes back as %d, %t", s, number, ok, back, ok2)
		}
	}
	if _, ok := slopeNumber(1025); ok {
		t.Fatal("1025 has more than nine bits")
	}
}

func bitsLen8(x uint8) (n int) {
	for ; x != 0; x >>= 1 {
		n++
	}
	return n
}

// checkAnyBundle opens any bytes: it must fail or give values, and never panic.
func checkAnyBundle(t testing.TB, s *Splitter, blob []byte, count int) {
	if err := s.Open(blob, count); err != nil {
		if !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		return
	}
	var dst []byte
	for i := range count {
		dst = s.Append(dst[:0], i)
		if len(dst) > 3*len(blob)+100 {
			t.Fatalf("%d bytes of a bundle of %d", len(dst), len(blob))
		}
	}
}

func FuzzBundle(f *testing.F) {
	for i := range fleet {
		f.Add(AppendBundle(nil, seriesHours(f, &fleet[i], 1, 5, 60, 60_000)), uint8(5))
		f.Add(AppendBundle(nil, seriesHours(f, &fleet[i], 1, 2, 20, 60_000)), uint8(2))
		f.Add(AppendBundle(nil, seriesHours(f, &fleet[i], 1, 12, 60, 60_000)), uint8(12))
	}
	all := seeds(f)
	f.Add(AppendBundle(nil, all[:20]), uint8(20))
	f.Add(AppendBundle(nil, all), uint8(len(all)))
	f.Fuzz(func(t *testing.T, blob []byte, count uint8) {
		var s Splitter
		checkAnyBundle(t, &s, blob, int(count))
	})
}

// FuzzBundleRoundTrip packs values that are cut out of any bytes.
func FuzzBundleRoundTrip(f *testing.F) {
	for _, seed := range seeds(f) {
		f.Add(seed, uint8(len(seed)), uint8(0))
	}
	f.Fuzz(func(t *testing.T, text []byte, cut, again uint8) {
		var values [][]byte
		for range 1 + again%7 {
			values = append(values, text)
		}
		for at := int(cut) + 1; len(text) > at; text = text[at:] {
			values = append(values, text[:at])
		}
		var s Splitter
		checkBundle(t, &s, values)
	})
}

// TestBundleFlips flips bits of bundles.
func TestBundleFlips(t *testing.T) {
	r := newRand(t)
	var s Splitter
	for range 200 {
		rows := 1 + r.IntN(24)
		if r.IntN(2) == 0 {
			rows = 1 + r.IntN(shortRunsMax)
		}
		values := seriesHours(t, &fleet[r.IntN(len(fleet))], r.Uint64(), rows, 60-r.IntN(2), 60_000)
		blob := AppendBundle(nil, values)
		for range 100 {
			bad := bytes.Clone(blob)
			bad[r.IntN(len(bad))] ^= 1 << r.IntN(8)
			checkAnyBundle(t, &s, bad[:len(bad)-r.IntN(2)], len(values))
		}
	}
}

func TestBundleAllocations(t *testing.T) {
	values := seriesHours(t, &fleet[0], 1, 24, 60, 60_000)
	blob := AppendBundle(nil, values)
	var s Splitter
	dst := make([]byte, 0, 1<<16)
	if n := testing.AllocsPerRun(100, func() {
		if err := s.Open(blob, len(values)); err != nil {
			t.Fatal(err)
		}
		for i := range values {
			dst = s.Append(dst[:0], i)
		}
	}); n > 0 {
		t.Fatalf("%v allocations to split a bundle", n)
	}
}

// TestBundleFormat pins the bytes of bundles and checks that FORMAT.md shows each example as it is. Each line of an
// example is a chunk, newest first: "every A from B", a colon and values.
func TestBundleFormat(t *testing.T) {
	document, err := os.ReadFile("../FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	datadriven.RunTest(t, "testdata/bundle", func(t *testing.T, d *datadriven.TestData) string {
		var values [][]byte
		alone := 0
		for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
			times, rest, _ := strings.Cut(line, ":")
			floats := scanValues(t, strings.Fields(rest))
			values = append(values, checkRoundTrip(t, 0, scanTimes(t, strings.Fields(times), len(floats)), floats))
			alone += len(values[len(values)-1])
		}
		var s Splitter
		blob := checkBundle(t, &s, values)
		out := fmt.Sprintf("%d chunks in %d bytes, alone %d\n", len(values), len(blob), alone) + hex.Dump(blob)
		example := strings.TrimSpace(fmt.Sprintf("%s\n----\n%s", strings.TrimSpace(d.Input), out))
		if !rewriting() && !strings.Contains(string(document), example) {
			t.Errorf("%s: FORMAT.md does not show\n%s", d.Pos, example)
		}
		return out
	})
}

// TestShortBundles checks what few hours of a fleet's series have in common: most of a head.
func TestShortBundles(t *testing.T) {
	var s Splitter
	for i := range fleet {
		c := &fleet[i]
		size, alone, short := 0, 0, 0
		for seed := range uint64(20) {
			values := seriesHours(t, c, seed, 2, 120, 15_000)
			blob := checkBundle(t, &s, values)
			size += len(blob)
			for _, v := range values {
				alone += len(v)
			}
			if blob[0]&bundleShort == bundleShort {
				short++
			}
		}
		t.Logf("%-16s %6.1f -> %6.1f bytes for two chunks, %d of 20 short", c.name, float64(alone)/20, float64(size)/20, short)
		if short < 10 && c.kind != fleetSum {
			t.Errorf("%s: %d of 20 bundles are short", c.name, short)
		}
		if short == 20 && size > alone-20*3 {
			t.Errorf("%s: bundles of 2 chunks take %d bytes, alone %d", c.name, size/20, alone/20)
		}
	}
}

// BenchmarkBundle packs and splits days of all series of a fleet.
func BenchmarkBundle(b *testing.B) {
	var days [][][]byte
	var blobs [][]byte
	chunks := 0
	for i := range fleet {
		for seed := range uint64(4) {
			days = append(days, seriesHours(b, &fleet[i], seed, 24, 60, 60_000))
			blobs = append(blobs, AppendBundle(nil, days[len(days)-1]))
			chunks += 24
		}
	}
	perChunk := func(b *testing.B, per int) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(per), "ns/chunk")
	}
	var s Splitter
	var dst []byte
	b.Run("pack", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, values := range days {
				dst = AppendBundle(dst[:0], values)
			}
		}
		perChunk(b, chunks)
	})
	split := func(b *testing.B, each int) {
		b.ReportAllocs()
		for b.Loop() {
			for i, values := range days {
				if err := s.Open(blobs[i], len(values)); err != nil {
					b.Fatal(err)
				}
				for k := 0; k < len(values); k += each {
					dst = s.Append(dst[:0], k)
				}
			}
		}
	}
	b.Run("split-all", func(b *testing.B) { split(b, 1); perChunk(b, chunks) })
	b.Run("split-one", func(b *testing.B) { split(b, 24); perChunk(b, chunks/24) })
	b.Run("copy", func(b *testing.B) {
		for b.Loop() {
			for _, values := range days {
				for _, v := range values {
					dst = append(dst[:0], v...)
				}
			}
		}
		perChunk(b, chunks)
	})
}
