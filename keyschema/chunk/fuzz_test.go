package chunk

import (
	"encoding/binary"
	"math"
	"testing"

	"halite/keyschema"
	"halite/keyschema/chunktest"
)

// seeds are chunks of every mode.
func seeds(f *testing.F) [][]byte {
	var out [][]byte
	for _, h := range chunktest.SeedHours() {
		packed, err := Append(nil, 0, h.TsMs, h.Values)
		if err != nil {
			f.Fatal(err)
		}
		out = append(out, packed)
	}
	return out
}

func FuzzDecode(f *testing.F) {
	for _, seed := range seeds(f) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		var d Decoder
		checkAnyBytes(t, &d, src)
	})
}

// FuzzRoundTrip makes the samples of a chunk from bytes. Two bytes are the gap to the previous timestamp, and eight bytes the
// value. If the top bit of the gap is set, there are no bytes for the value: it is the previous value plus one.
func FuzzRoundTrip(f *testing.F) {
	for _, pattern := range chunktest.OddValues {
		text := []byte{0x00, 0x00}
		text = binary.LittleEndian.AppendUint64(text, pattern)
		f.Add(append(text, 0xe8, 0x83, 0xe8, 0x83, 0xe9, 0x83, 0xe8, 0x83))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var tsMs []int64
		var values []float64
		ts, v := int64(-1), 0.0
		for len(text) >= 2 {
			head := binary.LittleEndian.Uint16(text)
			text = text[2:]
			if v++; head>>15 == 0 && len(text) >= 8 {
				v = math.Float64frombits(binary.LittleEndian.Uint64(text))
				text = text[8:]
			}
			if ts += 1 + int64(head&0x7fff); ts >= keyschema.HourMs {
				break
			}
			tsMs, values = append(tsMs, ts), append(values, v)
		}
		if len(tsMs) > 0 {
			checkRoundTrip(t, 0, tsMs, values)
		}
	})
}

func FuzzRow(f *testing.F) {
	for i, seed := range seeds(f) {
		f.Add(keyschema.AppendChunkQualifier(nil, uint32(i)), seed, uint32(7), 1.5)
	}
	f.Add(keyschema.AppendSampleQualifier(nil, 7), AppendSampleValue(nil, 2), uint32(7), math.NaN())
	f.Add(keyschema.AppendLaterSampleQualifier(nil, 7, 3), AppendSampleValue(nil, 2), uint32(7), 1.5)
	f.Fuzz(func(t *testing.T, qualifier, value []byte, offsetMs uint32, v float64) {
		offsetMs %= keyschema.HourMs
		var row Row
		row.Reset(keyschema.HourMs)
		want := make(map[int64]float64)
		if row.Add(qualifier, value) == nil {
			tsMs, values := row.Columns()
			for i := range tsMs {
				want[tsMs[i]] = values[i]
			}
		}
		if err := row.Add(keyschema.AppendSampleQualifier(nil, offsetMs), AppendSampleValue(nil, v)); err != nil {
			t.Fatal(err)
		}
		if q, err := keyschema.ParseQualifier(qualifier); err != nil || q.Seq == 0 || q.Kind != keyschema.KindSample ||
			q.OffsetMs != offsetMs || len(want) == 0 { // a sample written after a deletion wins
			want[keyschema.HourMs+int64(offsetMs)] = v
		}
		checkColumns(t, &row, want, func(v float64) float64 { return v })
	})
}
