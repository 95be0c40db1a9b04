package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	windowBytes = 1 << 20
	// badBlockBytes is the size of the blocks that a read error affects.
	badBlockBytes = 4096
)

// fileReader reads a file through one window. Unreadable blocks appear as zeros, which no checksum accepts; err keeps the
// first read error.
type fileReader struct {
	file vfs.File
	size int64
	buf  []byte
	base int64
	err  error
}

func openReader(fs vfs.FS, path string) (*fileReader, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &fileReader{file: f, size: info.Size()}, nil
}

func (r *fileReader) close() error { return r.file.Close() }

// view returns the n bytes at off, fewer at the end of the file. They are valid until the next call.
func (r *fileReader) view(off int64, n int) []byte {
	n = int(max(0, min(int64(n), r.size-off)))
	if n == 0 {
		return nil
	}
	if off < r.base || off+int64(n) > r.base+int64(len(r.buf)) {
		r.fill(off, int(min(int64(max(n, windowBytes)), r.size-off)))
	}
	i := int(off - r.base)
	return r.buf[i : i+n : i+n]
}

func (r *fileReader) fill(off int64, n int) {
	if cap(r.buf) < n {
		r.buf = make([]byte, n)
	}
	r.buf, r.base = r.buf[:n], off
	if r.readFull(r.buf, off) == nil {
		return
	}
	for at := off; at < off+int64(n); {
		// Read page by page, so that a bad page does not affect its neighbors.
		to := min(at/badBlockBytes*badBlockBytes+badBlockBytes, off+int64(n))
		block := r.buf[at-off : to-off]
		if err := r.readFull(block, at); err != nil {
			clear(block)
			if r.err == nil {
				r.err = fmt.Errorf("read at byte %d: %w", at, err)
			}
		}
		at = to
	}
}

func (r *fileReader) readFull(b []byte, off int64) error {
	for len(b) > 0 {
		n, err := r.file.ReadAt(b, off)
		b, off = b[n:], off+int64(n)
		if len(b) == 0 {
			return nil
		}
		if err == nil && n == 0 || errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// frameAt parses the frame at off, which must end by limit. An empty reason means that the frame is valid.
func (r *fileReader) frameAt(off, limit int64, salt uint64) (f frame, reason string) {
	limit = min(limit, r.size)
	if limit-off < frameHeaderBytes {
		return f, fmt.Sprintf("frame header is truncated to %d bytes", max(0, limit-off))
	}
	length, ok := frameLength(r.view(off, frameHeaderBytes), salt)
	if !ok {
		return f, "frame header fails its checksum"
	}
	if int64(length) > limit-off-frameHeaderBytes {
		return f, fmt.Sprintf("frame of %d bytes is truncated to %d", frameHeaderBytes+length, limit-off)
	}
	f, ok = parseFrame(r.view(off, frameHeaderBytes+length), salt)
	if !ok {
		return f, fmt.Sprintf("frame %d fails its checksum", f.seq)
	}
	return f, ""
}

// seqGapMax bounds the gap in sequence numbers that a reader accepts after damage. With this bound the reader rejects most random
// bytes without computing a checksum.
const seqGapMax = 1 << 40

// nextFrame finds the first valid frame at or after from with a sequence number of at least seqMin.
func (r *fileReader) nextFrame(from, limit int64, salt, seqMin uint64) (off int64, f frame, found bool) {
	limit = min(limit, r.size)
	for off = from; limit-off >= frameHeaderBytes; {
		block := r.view(off, int(min(windowBytes, limit-off)))
		hit := false
		i := 0
		for ; i+frameHeaderBytes <= len(block) && !hit; i++ {
			seq := binary.LittleEndian.Uint64(block[i+frameSeqAt:])
			if seq-seqMin < seqGapMax {
				_, hit = frameLength(block[i:], salt)
			}
		}
		if !hit {
			off += int64(i)
			continue
		}
		off += int64(i) - 1
		if f, reason := r.frameAt(off, limit, salt); reason == "" {
			return off, f, true
		}
		off++
	}
	return limit, frame{}, false
}
