package record

import "encoding/binary"

// countedEncoder is the common part of the encoders of counted payloads: the payload so far, and the last sample. The next
// sample is encoded as a difference from it.
type countedEncoder struct {
	buf   []byte
	start int
	count uint32
	ref   uint32
	tsMs  int64
}

// Reset starts a payload at the end of dst. The encoder owns dst from then on.
func (e *countedEncoder) Reset(dst []byte) {
	*e = countedEncoder{buf: append(dst, 0, 0, 0, 0), start: len(dst)}
}

// Len is the length of Bytes. The caller keeps the payload below BytesMax.
func (e *countedEncoder) Len() int { return len(e.buf) }

// Bytes returns the slice given to Reset, with the payload appended. It is valid until the next call of Add or Reset.
func (e *countedEncoder) Bytes() []byte {
	binary.LittleEndian.PutUint32(e.buf[e.start:], e.count)
	return e.buf
}

// countedPayload is a payload that begins with the number of its samples. It also holds the position of an iterator.
type countedPayload struct {
	rest      []byte
	left      uint32
	sizeBytes int
	err       error
}

// readCount reads the number of samples. Each sample takes sampleBytesMin bytes or more.
func readCount(payload []byte, sampleBytesMin uint64) countedPayload {
	p := countedPayload{sizeBytes: len(payload)}
	if len(payload) < samplesHeaderBytes {
		p.err = malformed("count of samples", 0)
		return p
	}
	p.left = binary.LittleEndian.Uint32(payload)
	p.rest = payload[samplesHeaderBytes:]
	if uint64(p.left)*sampleBytesMin > uint64(len(p.rest)) {
		p.left = 0
		p.err = malformed("count of samples", 0)
	}
	return p
}

// Left is the number of samples not yet returned. It never exceeds the number that the remaining bytes can hold.
func (p *countedPayload) Left() int { return int(p.left) }

// Err returns nil, or ErrMalformed with the offset of the first error in the payload.
func (p *countedPayload) Err() error { return p.err }

// end implements Next for an iterator without samples left: it returns false. Bytes after the last sample are an error.
func (p *countedPayload) end() bool {
	if len(p.rest) > 0 && p.err == nil {
		p.err = malformed("bytes after the last sample", p.sizeBytes-len(p.rest))
	}
	return false
}

// fail ends the iteration at a malformed sample and returns false.
func (p *countedPayload) fail() bool {
	p.err = malformed("sample", p.sizeBytes-len(p.rest))
	p.left, p.rest = 0, nil
	return false
}
