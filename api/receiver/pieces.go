package receiver

import (
	"bytes"
	"errors"
	"io"

	"halite/api/remote"
)

// PieceBytes is a good size of pieces.
const PieceBytes = 1 << 20

// Pieces divides a body into pieces of whole lines.
type Pieces struct {
	body     io.Reader
	bytesMax int64
	reserve  func(moreBytes int64) bool
	// Whole returns the size of the whole lines with which a text begins. If it is nil, each line break ends a line.
	Whole func(text []byte) int

	buf   []byte
	taken int // bytes of buf that Next returned
	ended bool
}

// NewPieces returns pieces of about sizeBytes of a body, in the memory of buf if it suffices. For a longer line it takes more
// memory with reserve, up to bytesMax.
func NewPieces(body io.Reader, buf []byte, sizeBytes, bytesMax int64, reserve func(moreBytes int64) bool) *Pieces {
	if int64(cap(buf)) < sizeBytes {
		buf = make([]byte, 0, sizeBytes)
	}
	return &Pieces{body: body, bytesMax: bytesMax, reserve: reserve, buf: buf[:0:sizeBytes]}
}

// SizeBytes is the memory of the pieces.
func (p *Pieces) SizeBytes() int64 { return int64(cap(p.buf)) }

// Buffer is the memory of the pieces, for NewPieces once nobody uses these pieces.
func (p *Pieces) Buffer() []byte { return p.buf }

// Next returns some lines, or nothing at the end. They are valid until the next call. The error is remote.ErrBodyTooLarge,
// remote.ErrBodyMemory, or an error of the body.
func (p *Pieces) Next() ([]byte, error) {
	p.buf = append(p.buf[:0], p.buf[p.taken:]...)
	p.taken = 0
	for {
		if err := p.fill(); err != nil {
			return nil, err
		}
		if p.ended {
			p.taken = len(p.buf)
			return p.buf, nil
		}
		if p.taken = p.lines(); p.taken > 0 {
			return p.buf[:p.taken], nil
		}
		if err := p.grow(); err != nil {
			return nil, err
		}
	}
}

// lines returns the size of the whole lines in the buffer.
func (p *Pieces) lines() int {
	if p.Whole == nil {
		return bytes.LastIndexByte(p.buf, '\n') + 1
	}
	return p.Whole(p.buf)
}

// fill reads until the buffer is full or the body ends.
func (p *Pieces) fill() error {
	for !p.ended && len(p.buf) < cap(p.buf) {
		n, err := p.body.Read(p.buf[len(p.buf):cap(p.buf)])
		p.buf = p.buf[:len(p.buf)+n]
		p.ended = errors.Is(err, io.EOF)
		if err != nil && !p.ended {
			return err
		}
	}
	return nil
}

// grow makes room for a longer line.
func (p *Pieces) grow() error {
	more := p.SizeBytes()
	if 2*more > p.bytesMax {
		return remote.ErrBodyTooLarge
	}
	if !p.reserve(more) {
		return remote.ErrBodyMemory
	}
	p.buf = append(make([]byte, 0, 2*more), p.buf...)
	return nil
}
