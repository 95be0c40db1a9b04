package wal

import (
	"cmp"
	"fmt"
)

// Position is the place of a frame's first byte in the log. Positions order as the frames do.
type Position struct {
	// Segment is the number of the file, from 1.
	Segment uint64
	// Offset is in bytes from the start of the file.
	Offset int64
}

// Before reports whether p lies before q.
func (p Position) Before(q Position) bool { return p.Compare(q) < 0 }

// Compare is -1, 0 or 1 as p lies before, at or after q.
func (p Position) Compare(q Position) int {
	if c := cmp.Compare(p.Segment, q.Segment); c != 0 {
		return c
	}
	return cmp.Compare(p.Offset, q.Offset)
}

func (p Position) String() string { return fmt.Sprintf("%08d:%d", p.Segment, p.Offset) }
