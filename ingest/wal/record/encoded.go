package record

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// EncodedSample is a histogram or an exemplar of the series to which a KindSeries record gave the number Ref. Data is its
// encoding without the time; package record does not look into it.
type EncodedSample struct {
	Ref  uint32
	TsMs int64
	Data []byte
}

const (
	// An encoded sample is two varints, for the series and the time, a uvarint for the length, and the encoding.
	encodedBytesMin    = 1 + 1 + 1
	encodedOverheadMax = 5 + 10 + 4
)

// EncodedSizeMax returns an upper bound of the bytes that EncodedEncoder.Add appends for an encoding of a given size.
func EncodedSizeMax(dataBytes int) int { return encodedOverheadMax + dataBytes }

// EncodedEncoder builds a KindHistograms or KindExemplars payload sample by sample. Call Reset first. It is not for concurrent
// use.
type EncodedEncoder struct{ countedEncoder }

// Add appends one sample. Series and times may come in any order.
func (e *EncodedEncoder) Add(ref uint32, tsMs int64, data []byte) {
	e.buf = binary.AppendUvarint(e.buf, protowire.EncodeZigZag(int64(ref)-int64(e.ref)))
	e.buf = binary.AppendUvarint(e.buf, protowire.EncodeZigZag(tsMs-e.tsMs))
	e.buf = binary.AppendUvarint(e.buf, uint64(len(data)))
	e.buf = append(e.buf, data...)
	e.ref, e.tsMs = ref, tsMs
	e.count++
}

// AppendEncoded appends the KindHistograms or KindExemplars payload of samples.
func AppendEncoded(dst []byte, samples []EncodedSample) []byte {
	var e EncodedEncoder
	e.Reset(dst)
	for i := range samples {
		e.Add(samples[i].Ref, samples[i].TsMs, samples[i].Data)
	}
	return e.Bytes()
}

// EncodedIter iterates over a KindHistograms or KindExemplars payload without allocating, as SampleIter does over samples. Data
// aliases the payload.
type EncodedIter struct {
	EncodedSample
	countedPayload
}

// ReadEncoded returns an iterator before the first sample of a KindHistograms or KindExemplars payload.
func ReadEncoded(payload []byte) EncodedIter {
	return EncodedIter{countedPayload: readCount(payload, encodedBytesMin)}
}

// Next moves to the next sample. It returns false at the end and after an error; see Err.
func (it *EncodedIter) Next() bool {
	if it.left == 0 {
		return it.end()
	}
	b := it.rest
	var fields [3]uint64 // series, time, length
	for i := range fields {
		value, n := binary.Uvarint(b)
		if n <= 0 {
			return it.fail()
		}
		fields[i], b = value, b[n:]
	}
	ref := int64(it.Ref) + protowire.DecodeZigZag(fields[0])
	if uint64(ref) > math.MaxUint32 || fields[2] > uint64(len(b)) {
		return it.fail()
	}
	it.Ref = uint32(ref)
	it.TsMs += protowire.DecodeZigZag(fields[1])
	it.Data, it.rest = b[:fields[2]:fields[2]], b[fields[2]:]
	it.left--
	return true
}
