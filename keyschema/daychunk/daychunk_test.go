package daychunk

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/keyschema/chunktest"
	"halite/keyschema/column"
)

// checkRoundTrip packs the values and splits them again, with a Decoder that has been used.
func checkRoundTrip(t testing.TB, d *Decoder, values [][]byte) []byte {
	t.Helper()
	blob := Append([]byte("before"), values)
	if string(blob[:6]) != "before" {
		t.Fatalf("Append overwrote what was there: %q", blob[:6])
	}
	blob = blob[6:]
	if err := d.Open(blob, len(values)); err != nil {
		t.Fatalf("%v\nvalues %x\nbundle %x", err, values, blob)
	}
	for _, i := range rand.Perm(len(values)) {
		if got := d.Append([]byte{1}, i); got[0] != 1 || !bytes.Equal(got[1:], values[i]) {
			t.Fatalf("value %d of %x comes back as %x", i, values, got[1:])
		}
	}
	plain := 1
	for _, v := range values {
		plain += len(v) + column.UvarintLen(uint64(len(v)))
	}
	if len(blob) > plain {
		t.Fatalf("%d bytes of values grow to %d", plain, len(blob))
	}
	return blob
}

// seriesHours packs hours of one series, newest first, as in a table.
func seriesHours(t testing.TB, c *chunktest.FleetClass, seed uint64, rows, n int, intervalMs int64) [][]byte {
	t.Helper()
	hours, _ := chunktest.FleetHours(seed, c, 1, rows, n, intervalMs)
	var values [][]byte
	for _, h := range hours[:rows] {
		packed, err := chunk.Append(nil, 0, h.TsMs, h.Values)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, packed)
	}
	slices.Reverse(values)
	return values
}

// randomValue is a chunk of random samples, or bytes that are not a chunk.
func randomValue(t testing.TB, r *rand.Rand) []byte {
	n := chunktest.RandomLength(r)
	values := make([]float64, n)
	chunktest.RandomValues(r, values)
	packed, err := chunk.Append(nil, 0, chunktest.RandomTimes(r, 0, n), values)
	if err != nil {
		t.Fatal(err)
	}
	switch r.IntN(6) {
	case 0: // truncated, or with extra bytes
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

func TestRoundTrip(t *testing.T) {
	r := chunktest.NewRand(t)
	var d Decoder
	checkRoundTrip(t, &d, nil)
	checkRoundTrip(t, &d, [][]byte{{}})
	for range 600 {
		var values [][]byte
		switch r.IntN(3) {
		case 0:
			for range 1 + r.IntN(30) {
				values = append(values, randomValue(t, r))
			}
		default:
			c := &chunktest.Fleet[r.IntN(len(chunktest.Fleet))]
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
		checkRoundTrip(t, &d, values)
	}
	many := make([][]byte, 700)
	for i := range many {
		many[i] = randomValue(t, r)
	}
	checkRoundTrip(t, &d, many)
}

// TestSizes checks the saving of day chunks over single chunks, for series of a fleet.
func TestSizes(t *testing.T) {
	var d Decoder
	saved, chunks := 0.0, 0.0
	for i := range chunktest.Fleet {
		c := &chunktest.Fleet[i]
		size, alone := 0, 0
		for seed := range uint64(5) {
			values := seriesHours(t, c, seed, 24, 60, 60_000)
			size += len(checkRoundTrip(t, &d, values))
			for _, v := range values {
				alone += len(v)
			}
		}
		t.Logf("%-16s %6.1f -> %6.1f bytes a chunk", c.Name, float64(alone)/120, float64(size)/120)
		saved += float64(alone-size) / 120 * float64(c.Series)
		chunks += float64(c.Series)
		if c.Name == "constant" && size > 5*12 {
			t.Errorf("24 hours of a constant take %d bytes", size/5)
		}
	}
	if saved/chunks < 6 {
		t.Errorf("a chunk loses %.1f bytes of its head only", saved/chunks)
	}
}

// checkAny opens any bytes. The Decoder returns an error or values, and never panics.
func checkAny(t testing.TB, d *Decoder, blob []byte, count int) {
	if err := d.Open(blob, count); err != nil {
		if !errors.Is(err, column.ErrCorrupt) {
			t.Fatal(err)
		}
		return
	}
	var dst []byte
	for i := range count {
		dst = d.Append(dst[:0], i)
		if len(dst) > 3*len(blob)+100 {
			t.Fatalf("%d bytes of a day chunk of %d", len(dst), len(blob))
		}
	}
}

// seeds are chunks of every mode.
func seeds(f *testing.F) [][]byte {
	var out [][]byte
	for _, h := range chunktest.SeedHours() {
		packed, err := chunk.Append(nil, 0, h.TsMs, h.Values)
		if err != nil {
			f.Fatal(err)
		}
		out = append(out, packed)
	}
	return out
}

func FuzzDecoder(f *testing.F) {
	for i := range chunktest.Fleet {
		f.Add(Append(nil, seriesHours(f, &chunktest.Fleet[i], 1, 5, 60, 60_000)), uint8(5))
		f.Add(Append(nil, seriesHours(f, &chunktest.Fleet[i], 1, 2, 20, 60_000)), uint8(2))
		f.Add(Append(nil, seriesHours(f, &chunktest.Fleet[i], 1, 12, 60, 60_000)), uint8(12))
	}
	all := seeds(f)
	f.Add(Append(nil, all[:20]), uint8(20))
	f.Add(Append(nil, all), uint8(len(all)))
	f.Fuzz(func(t *testing.T, blob []byte, count uint8) {
		var d Decoder
		checkAny(t, &d, blob, int(count))
	})
}

// FuzzRoundTrip packs values that are cut out of any bytes.
func FuzzRoundTrip(f *testing.F) {
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
		var d Decoder
		checkRoundTrip(t, &d, values)
	})
}

// TestFlips flips bits of day chunks.
func TestFlips(t *testing.T) {
	r := chunktest.NewRand(t)
	var d Decoder
	for range 200 {
		rows := 1 + r.IntN(24)
		if r.IntN(2) == 0 {
			rows = 1 + r.IntN(shortChunksMax)
		}
		values := seriesHours(t, &chunktest.Fleet[r.IntN(len(chunktest.Fleet))], r.Uint64(), rows, 60-r.IntN(2), 60_000)
		blob := Append(nil, values)
		for range 100 {
			bad := bytes.Clone(blob)
			bad[r.IntN(len(bad))] ^= 1 << r.IntN(8)
			checkAny(t, &d, bad[:len(bad)-r.IntN(2)], len(values))
		}
	}
}

func TestAllocations(t *testing.T) {
	values := seriesHours(t, &chunktest.Fleet[0], 1, 24, 60, 60_000)
	blob := Append(nil, values)
	var d Decoder
	dst := make([]byte, 0, 1<<16)
	if n := testing.AllocsPerRun(100, func() {
		if err := d.Open(blob, len(values)); err != nil {
			t.Fatal(err)
		}
		for i := range values {
			dst = d.Append(dst[:0], i)
		}
	}); n > 0 {
		t.Fatalf("%v allocations to split a day chunk", n)
	}
}

// TestFormat pins the bytes of day chunks and checks that FORMAT.md shows each example exactly. Each line of an
// example is a chunk, newest first: "every A from B", a colon and values.
func TestFormat(t *testing.T) {
	chunktest.CheckFormat(t, "../FORMAT.md", func(t *testing.T, d *datadriven.TestData) string {
		var values [][]byte
		alone := 0
		for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
			times, rest, _ := strings.Cut(line, ":")
			floats := chunktest.ScanValues(t, strings.Fields(rest))
			packed, err := chunk.Append(nil, 0, chunktest.ScanTimes(t, strings.Fields(times), len(floats)), floats)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, packed)
			alone += len(values[len(values)-1])
		}
		blob := checkRoundTrip(t, new(Decoder), values)
		return fmt.Sprintf("%d chunks in %d bytes, alone %d\n", len(values), len(blob), alone) + hex.Dump(blob)
	})
}

// TestShortForm checks that a few hours of a fleet's series share most of their headers.
func TestShortForm(t *testing.T) {
	var d Decoder
	for i := range chunktest.Fleet {
		c := &chunktest.Fleet[i]
		size, alone, short := 0, 0, 0
		for seed := range uint64(20) {
			values := seriesHours(t, c, seed, 2, 120, 15_000)
			blob := checkRoundTrip(t, &d, values)
			size += len(blob)
			for _, v := range values {
				alone += len(v)
			}
			if blob[0]&shortForm == shortForm {
				short++
			}
		}
		t.Logf("%-16s %6.1f -> %6.1f bytes for two chunks, %d of 20 short", c.Name, float64(alone)/20, float64(size)/20, short)
		if short < 10 && c.Name != "latency-sum" {
			t.Errorf("%s: %d of 20 day chunks are short", c.Name, short)
		}
		if short == 20 && size > alone-20*3 {
			t.Errorf("%s: day chunks of 2 chunks take %d bytes, alone %d", c.Name, size/20, alone/20)
		}
	}
}

// BenchmarkDaychunk packs and splits days of all series of a fleet.
func BenchmarkDaychunk(b *testing.B) {
	var days [][][]byte
	var blobs [][]byte
	chunks := 0
	for i := range chunktest.Fleet {
		for seed := range uint64(4) {
			days = append(days, seriesHours(b, &chunktest.Fleet[i], seed, 24, 60, 60_000))
			blobs = append(blobs, Append(nil, days[len(days)-1]))
			chunks += 24
		}
	}
	perChunk := func(b *testing.B, per int) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(per), "ns/chunk")
	}
	var d Decoder
	var dst []byte
	b.Run("pack", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, values := range days {
				dst = Append(dst[:0], values)
			}
		}
		perChunk(b, chunks)
	})
	split := func(b *testing.B, each int) {
		b.ReportAllocs()
		for b.Loop() {
			for i, values := range days {
				if err := d.Open(blobs[i], len(values)); err != nil {
					b.Fatal(err)
				}
				for k := 0; k < len(values); k += each {
					dst = d.Append(dst[:0], k)
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
