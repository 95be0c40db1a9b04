package wal

import (
	"encoding/binary"
	"math"
)

// Sample is one value of the series that a KindSeries record gave the number Ref.
type Sample struct {
	Ref   uint32
	TsMs  int64
	Value float64
}

const (
	samplesHeaderBytes = 4
	// A sample takes at least two varints of a byte each and the value, at most those of 5 and 10 bytes and the value.
	sampleBytesMin = 1 + 1 + 8
	sampleBytesMax = 5 + 10 + 8
)

// SamplesEncoder builds a KindSamples payload sample by sample. Its zero value is ready after Reset; not concurrent.
type SamplesEncoder struct {
	buf   []byte
	start int
	count uint32
	ref   uint32
	tsMs  int64
}

// Reset starts a payload at the end of dst, which the encoder then owns.
func (e *SamplesEncoder) Reset(dst []byte) {
	*e = SamplesEncoder{buf: append(dst, 0, 0, 0, 0), start: len(dst)}
}

// Add appends one sample, in any order of series and time. Close by in both is small.
func (e *SamplesEncoder) Add(ref uint32, tsMs int64, value float64) {
	buf := e.buf
	if cap(buf)-len(buf) < sampleBytesMax {
		buf = append(buf, make([]byte, sampleBytesMax)...)[:len(buf)]
	}
	n := len(buf)
	buf = buf[:n+sampleBytesMax]
	refDelta, tsDelta := zigzag(int64(ref)-int64(e.ref)), zigzag(tsMs-e.tsMs)
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

// Count is the number of samples so far.
func (e *SamplesEncoder) Count() int { return int(e.count) }

// Len is the length of Bytes in bytes; keep the payload below PayloadBytesMax.
func (e *SamplesEncoder) Len() int { return len(e.buf) }

// Bytes is dst of Reset followed by the payload; valid until the next call of Add or Reset.
func (e *SamplesEncoder) Bytes() []byte {
	binary.LittleEndian.PutUint32(e.buf[e.start:], e.count)
	return e.buf
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

// SampleIter walks a KindSamples payload without allocating:
//
//	it := ReadSamples(payload)
//	for it.Next() { use(it.Ref, it.TsMs, it.Value) }
//	if err := it.Err(); err != nil { … }
type SampleIter struct {
	Sample
	rest    []byte
	left    uint32
	sizeAll int
	err     error
}

// ReadSamples starts at the first sample. A fault in the payload shows in Err after Next returned false.
func ReadSamples(payload []byte) SampleIter {
	it := SampleIter{sizeAll: len(payload)}
	if len(payload) < samplesHeaderBytes {
		it.err = badRecord("samples count", 0)
		return it
	}
	it.left = binary.LittleEndian.Uint32(payload)
	it.rest = payload[samplesHeaderBytes:]
	if uint64(it.left)*sampleBytesMin > uint64(len(it.rest)) {
		it.left = 0
		it.err = badRecord("samples count", 0)
	}
	return it
}

// Left is the number of samples that Next has still to give; never more than the payload can hold.
func (it *SampleIter) Left() int { return int(it.left) }

// Next moves to the next sample; false at the end or at a fault.
func (it *SampleIter) Next() bool {
	if it.left == 0 {
		if len(it.rest) > 0 && it.err == nil {
			it.err = badRecord("bytes after the last sample", it.sizeAll-len(it.rest))
		}
		return false
	}
	b := it.rest
	var refDelta, tsDelta uint64
	n := 2
	if len(b) >= sampleBytesMin && b[0]|b[1] < 0x80 {
		refDelta, tsDelta = uint64(b[0]), uint64(b[1])
	} else {
		var m int
		if refDelta, n = binary.Uvarint(b); n <= 0 {
			return it.fault()
		}
		if tsDelta, m = binary.Uvarint(b[n:]); m <= 0 {
			return it.fault()
		}
		n += m
		if len(b)-n < 8 {
			return it.fault()
		}
	}
	ref := int64(it.Ref) + unzigzag(refDelta)
	if uint64(ref) > math.MaxUint32 {
		return it.fault()
	}
	it.Ref = uint32(ref)
	it.TsMs += unzigzag(tsDelta)
	it.Value = math.Float64frombits(binary.LittleEndian.Uint64(b[n:]))
	it.rest = b[n+8:]
	it.left--
	return true
}

func (it *SampleIter) fault() bool {
	it.err = badRecord("sample", it.sizeAll-len(it.rest))
	it.left = 0
	it.rest = nil
	return false
}

// Err is nil, or ErrBadRecord with the place of the fault.
func (it *SampleIter) Err() error { return it.err }

// DecodeSamples appends the samples of a KindSamples payload to dst; with an error dst holds those before the fault.
func DecodeSamples(dst []Sample, payload []byte) ([]Sample, error) {
	it := ReadSamples(payload)
	for it.Next() {
		dst = append(dst, it.Sample)
	}
	return dst, it.Err()
}

func zigzag(v int64) uint64 { return uint64(v<<1) ^ uint64(v>>63) }

func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }
