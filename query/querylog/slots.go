package querylog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"

	"github.com/edsrzf/mmap-go"
)

const (
	// slotBytes is the size of a slot. It has room for a query of textBytesMax bytes that need no escaping.
	slotBytes = 4096
	// activeBytesMax bounds the file of active queries that Open reads.
	activeBytesMax = 64 << 20
)

// parseSlots reads the queries in a file of active queries and counts the damaged slots.
func parseSlots(data []byte) (queries []Query, damaged int) {
	for len(data) > 0 {
		slot := data[:min(slotBytes, len(data))]
		data = data[len(slot):]
		if slot[0] == 0 {
			continue
		}
		text, _, ended := bytes.Cut(slot, []byte{'\n'})
		var q Query
		if !ended || json.Unmarshal(text, &q) != nil || q.Query == "" {
			damaged++
			continue
		}
		queries = append(queries, q.bounded(textBytesMax))
	}
	return queries, damaged
}

// encodeSlot encodes a query for a slot and shortens its expression until it fits.
func encodeSlot(q Query) []byte {
	for textMax := textBytesMax; ; textMax /= 2 {
		b := q.bounded(textMax)
		// A text that needs escapes may exceed this capacity; append then grows it.
		text := b.appendJSON(make([]byte, 0, 192+len(b.Query)+len(b.Client)))
		if len(text) <= slotBytes {
			return text
		}
	}
}

// slots is the mapped file of active queries.
type slots struct {
	path string

	mu     sync.Mutex
	mapped mmap.MMap // nil once it is closed or broken
	free   []int
}

// readActive reads the queries of the last run. Without a file there are none.
func readActive(path string) (queries []Query, damaged int, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, activeBytesMax+1))
	if err != nil {
		return nil, 0, err
	}
	if len(data) > activeBytesMax {
		return nil, 0, fmt.Errorf("%s has more than %d bytes", path, activeBytesMax)
	}
	queries, damaged = parseSlots(data)
	return queries, damaged, nil
}

// openSlots creates a file of n empty slots and maps it. It writes the zeros, so that later writes to the mapping need no
// disk space.
func openSlots(path string, n int) (*slots, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close() // The mapping stays.
	if err := f.Chmod(0o600); err != nil {
		return nil, err
	}
	if _, err := f.Write(make([]byte, n*slotBytes)); err != nil {
		return nil, err
	}
	mapped, err := mmap.Map(f, mmap.RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	s := &slots{path: path, mapped: mapped}
	for i := range n {
		s.free = append(s.free, i)
	}
	return s, nil
}

// acquire writes a query to a free slot and returns the number of the slot. ok is false if no slot is free.
func (s *slots) acquire(q Query) (slot int, ok bool, err error) {
	text := encodeSlot(q)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mapped == nil || len(s.free) == 0 {
		return 0, false, nil
	}
	slot = s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	err = s.write(func() {
		at := s.mapped[slot*slotBytes:]
		copy(at[1:], text[1:])
		at[0] = text[0]
	})
	return slot, err == nil, err
}

func (s *slots) clear(slot int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mapped == nil {
		return nil
	}
	s.free = append(s.free, slot)
	return s.write(func() { s.mapped[slot*slotBytes] = 0 })
}

// write calls change, which writes to the mapping. If the file system cannot provide a page, the kernel sends SIGBUS. Then
// write unmaps the file and returns an error, and the process continues. The caller holds mu.
func (s *slots) write(change func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			err = errors.Join(fmt.Errorf("write to %s: %v", s.path, fault), s.mapped.Unmap())
		}
	}()
	change()
	return nil
}

// close removes the file: all queries of this process have finished.
func (s *slots) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mapped == nil {
		return nil
	}
	err := os.Remove(s.path)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(s.mapped.Unmap(), err)
}
