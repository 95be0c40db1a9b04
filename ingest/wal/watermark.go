package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/zeebo/xxh3"
)

// The watermark file names the end of the frames that the next Open must be able to read. It has two slots in separate
// pages. The log writes them alternately, so a torn write damages only the older one.
const (
	slotBytes      = 72
	slotSpacing    = 4096
	slotCount      = 2
	watermarkBytes = slotCount * slotSpacing
)

var watermarkMagic = [8]byte{'H', 'A', 'L', 'I', 'T', 'W', 'M', 'K'}

// mark is the content of a slot.
type mark struct {
	salt       uint64
	generation uint64
	// pos is the end of the durable frames. sum is the checksum of the last frame before it, or of the segment's header.
	// nextSeq is the sequence number of the next frame.
	pos     Position
	sum     uint64
	nextSeq uint64
	// clean means that the log was closed and nothing lies after pos.
	clean bool
	// starts counts how often the log was opened. It reveals a copy of the log from before a start.
	starts uint32
}

func (m *mark) append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, watermarkMagic[:]...)
	flags := byte(0)
	if m.clean {
		flags = 1
	}
	dst = binary.LittleEndian.AppendUint32(append(dst, formatVersion, 0, flags, 0), m.starts)
	for _, v := range [...]uint64{m.salt, m.generation, m.pos.Segment, uint64(m.pos.Offset), m.sum, m.nextSeq} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	return binary.LittleEndian.AppendUint64(dst, xxh3.Hash(dst[start:]))
}

func parseMark(b []byte) (m mark, ok bool, err error) {
	if len(b) < slotBytes {
		return m, false, nil
	}
	b = b[:slotBytes]
	sum := binary.LittleEndian.Uint64(b[slotBytes-8:])
	if [8]byte(b) != watermarkMagic || xxh3.Hash(b[:slotBytes-8]) != sum {
		return m, false, nil
	}
	if v := binary.LittleEndian.Uint16(b[8:]); v != formatVersion {
		return m, false, fmt.Errorf("%w: watermark has version %d, this program reads %d", ErrVersion, v, formatVersion)
	}
	m.clean = b[10]&1 != 0
	m.starts = binary.LittleEndian.Uint32(b[12:])
	m.salt = binary.LittleEndian.Uint64(b[16:])
	m.generation = binary.LittleEndian.Uint64(b[24:])
	m.pos.Segment = binary.LittleEndian.Uint64(b[32:])
	m.pos.Offset = int64(binary.LittleEndian.Uint64(b[40:]))
	m.sum = binary.LittleEndian.Uint64(b[48:])
	m.nextSeq = binary.LittleEndian.Uint64(b[56:])
	return m, true, nil
}

// readMark returns the newer slot; ok is false if no slot is intact.
func readMark(fs vfs.FS, dir string) (m mark, ok bool, err error) {
	r, err := openReader(fs, fs.PathJoin(dir, watermarkName))
	if err != nil {
		return m, false, fmt.Errorf("open the watermark: %w", err)
	}
	for slot := range int64(slotCount) {
		s, slotOK, slotErr := parseMark(r.view(slot*slotSpacing, slotBytes))
		if slotErr != nil {
			return m, false, errors.Join(slotErr, r.close())
		}
		if slotOK && (!ok || s.generation > m.generation) {
			m, ok = s, true
		}
	}
	if r.err == nil && !ok {
		for slot := range int64(slotCount) {
			if b := r.view(slot*slotSpacing, slotBytes); len(b) == slotBytes && [8]byte(b) == watermarkMagic {
				if v := binary.LittleEndian.Uint16(b[8:]); v > formatVersion {
					err = errors.New(unknownVersion(v))
				}
			}
		}
	}
	if r.err != nil {
		// The readable slot may be the older one.
		return m, false, errors.Join(fmt.Errorf("watermark: %w", r.err), r.close())
	}
	return m, ok, errors.Join(err, r.close())
}

// watermark is the open watermark file. Its methods may be called concurrently.
type watermark struct {
	mu   sync.Mutex // held during disk writes
	file vfs.File
	last mark
	// pos is last.pos, readable without mu: position never waits for the disk.
	pos atomic.Pointer[Position]
}

// createWatermark atomically replaces the file by one that holds m.
func createWatermark(fs vfs.FS, dir string, m mark) error {
	contents := make([]byte, watermarkBytes)
	copy(contents[m.generation%slotCount*slotSpacing:], m.append(nil))
	f, err := writeNamed(fs, dir, watermarkName, contents)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("close the watermark: %w", err)
	}
	return nil
}

func openWatermark(fs vfs.FS, dir string, last mark) (*watermark, error) {
	f, err := fs.OpenReadWrite(fs.PathJoin(dir, watermarkName), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("open the watermark: %w", err)
	}
	w := &watermark{file: f, last: last}
	w.pos.Store(&last.pos)
	return w, nil
}

// advance syncs m to the disk, unless a later mark is there. It fills in salt, generation and starts.
func (w *watermark) advance(m mark) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.pos.Before(w.last.pos) || m.pos == w.last.pos && m.clean == w.last.clean {
		return nil
	}
	m.starts = w.last.starts
	return w.write(m)
}

// begin syncs m to both slots, so that a damaged slot does not make the log look older.
func (w *watermark) begin(m mark) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range slotCount {
		if err := w.write(m); err != nil {
			return err
		}
	}
	return nil
}

// write syncs m to the disk. It fills in salt and generation. The caller holds w.mu.
func (w *watermark) write(m mark) error {
	m.salt, m.generation = w.last.salt, w.last.generation+1
	at := int64(m.generation % slotCount * slotSpacing)
	if _, err := w.file.WriteAt(m.append(make([]byte, 0, slotBytes)), at); err != nil {
		return fmt.Errorf("write the watermark: %w", err)
	}
	if err := syncData(w.file); err != nil {
		return fmt.Errorf("sync the watermark: %w", err)
	}
	w.last = m
	w.pos.Store(&m.pos)
	return nil
}

func (w *watermark) position() Position { return *w.pos.Load() }

func (w *watermark) close() error { return w.file.Close() }
