package record

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Sample is one value of the series to which a KindSeries record gave the number Ref.
type Sample struct {
	Ref   uint32
	TsMs  int64
	Value float64
}

const (
	samplesHeaderBytes = 4
	// A sample is two varints, for the series and the time, and eight bytes for the value.
	sampleBytesMin = 1 + 1 + 8
	sampleBytesMax = 5 + 10 + 8
)

// SamplesEncoder builds a KindSamples payload sample by sample. Call Reset first. It is not for concurrent use.
type SamplesEncoder struct{ countedEncoder }

// Add appends one sample. Series and times may come in any order; small steps in both take few bytes.
func (e *SamplesEncoder) Add(ref uint32, tsMs int64, value float64) {
	buf := e.buf
	if cap(buf)-len(buf) < sampleBytesMax {
		buf = append(buf, make([]byte, sampleBytesMax)...)[:len(buf)]
	}
	n := len(buf)
	buf = buf[:n+sampleBytesMax]
	refDelta, tsDelta := protowire.EncodeZigZag(int64(ref)-int64(e.ref)), protowire.EncodeZigZag(tsMs-e.tsMs)
	if refDelta < 0x80 && tsDelta < 0x80 {
		buf[n], buf[n+1] = byte(refDelta), byte(tsDelta)
		n += 2
	} else {
		n += binary.PutUvarint(buf[n:], refDelta)
		n += binary.PutUvarint(buf[n:], tsDelta)
	}
	binary.LittleEndian.PutUint64(buf[n:], math.Float64bits(value))
	e.buf = buf[:n+8]
	e.ref, e.tsMs = ref, tsMs
	e.count++
}

// AppendSamples appends the KindSamples payload of samples.
func AppendSamples(dst []byte, samples []Sample) []byte {
	var e SamplesEncoder
	e.Reset(dst)
	for i := range samples {
		e.Add(samples[i].Ref, samples[i].TsMs, samples[i].Value)
	}
	return e.Bytes()
}

// SampleIter iterates over a KindSamples payload without allocating:
//
//	it := ReadSamples(payload)
//	for it.Next() { use(it.Ref, it.TsMs, it.Value) }
//	if err := it.Err(); err != nil { … }
type SampleIter struct {
	Sample
	countedPayload
}

// ReadSamples returns an iterator before the first sample of a KindSamples payload.
func ReadSamples(payload []byte) SampleIter {
	return SampleIter{countedPayload: readCount(payload, sampleBytesMin)}
}

// Next moves to the next sample. It returns false at the end and after an error; see Err.
func (it *SampleIter) Next() bool {
	if it.left == 0 {
		return it.end()
	}
	b := it.rest
	var refDelta, tsDelta uint64
	n := 2
	if len(b) >= sampleBytesMin && b[0]|b[1] < 0x80 {
		refDelta, tsDelta = uint64(b[0]), uint64(b[1])
	} else {
		var m int
		if refDelta, n = binary.Uvarint(b); n <= 0 {
			return it.fail()
		}
		if tsDelta, m = binary.Uvarint(b[n:]); m <= 0 {
			return it.fail()
		}
		n += m
		if len(b)-n < 8 {
			return it.fail()
		}
	}
	ref := int64(it.Ref) + protowire.DecodeZigZag(refDelta)
	if uint64(ref) > math.MaxUint32 {
		return it.fail()
	}
	it.Ref = uint32(ref)
	it.TsMs += protowire.DecodeZigZag(tsDelta)
	it.Value = math.Float64frombits(binary.LittleEndian.Uint64(b[n:]))
	it.rest = b[n+8:]
	it.left--
	return true
}

// DecodeSamples appends the samples of a KindSamples payload to dst. With an error, dst holds the samples before it.
func DecodeSamples(dst []Sample, payload []byte) ([]Sample, error) {
	it := ReadSamples(payload)
	for it.Next() {
		dst = append(dst, it.Sample)
	}
	return dst, it.Err()
}
