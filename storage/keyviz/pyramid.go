package keyviz

import (
	"maps"
	"slices"

	"halite/storage/keyviz/heat"
	"halite/storage/keyviz/ranges"
)

// level is columns of one span, by their start.
type level struct {
	ranges.Level
	letter  byte // in row keys
	columns map[int64]*stored
}

// stored is a column. Only recent columns are open; the others are encoded.
type stored struct {
	open    *heat.Column
	encoded []byte
	dirty   bool // table meta has no copy, or an older one
}

// pyramid has columns of a minute, ten minutes and an hour. Every count is in all three.
type pyramid struct {
	codec     *heat.Codec
	bytesMax  int64
	rangesMax int
	levels    [3]*level
	sizeBytes int64 // size of the encoded columns
	open      int
	folded    int64 // columns that lost ranges to stay within bytesMax
	outside   heat.Counts
}

// openMax bounds the decoded columns.
const openMax = 64

// columnBytes is the memory of a column in addition to its encoded form.
const columnBytes = 128

func newPyramid(codec *heat.Codec, bytesMax int64, rangesMax int) *pyramid {
	p := &pyramid{codec: codec, bytesMax: bytesMax, rangesMax: rangesMax}
	for i, l := range levels() {
		p.levels[i] = &level{Level: l, letter: "mth"[i], columns: make(map[int64]*stored)}
	}
	return p
}

// levels returns the resolutions. Each level keeps two extra columns beyond its six hours, four days or 28 days, because a
// window may begin and end within a column.
func levels() []ranges.Level {
	const minuteMs = ranges.MinuteMs
	return []ranges.Level{
		{SpanMs: minuteMs, Keep: 362}, {SpanMs: 10 * minuteMs, Keep: 578}, {SpanMs: 60 * minuteMs, Keep: 674},
	}
}

// add adds counts to the columns of their time, in each level that keeps it.
func (p *pyramid) add(c *heat.Column, nowMs int64) {
	kept := false
	for _, l := range p.levels {
		startMs := c.StartMs - c.StartMs%l.SpanMs
		if startMs < l.FirstMs(nowMs) {
			continue
		}
		kept = true
		s := p.opened(l, startMs)
		s.dirty = true
		s.open.Add(c)
		s.open.Reduce(p.rangesMax)
	}
	if !kept {
		total := c.Total()
		p.outside.Add(&total, 1)
	}
	if p.open > openMax {
		p.close(openMax / 2)
	}
}

// opened returns a decoded column and makes a missing one.
func (p *pyramid) opened(l *level, startMs int64) *stored {
	s := l.columns[startMs]
	if s == nil {
		s = &stored{}
		l.columns[startMs] = s
	}
	if s.open != nil {
		return s
	}
	if s.encoded != nil {
		s.open = p.decoded(s)
	}
	if s.open == nil {
		s.open = &heat.Column{StartMs: startMs, SpanMs: l.SpanMs, Starts: []string{""}, Counts: make([]heat.Counts, 1)}
	}
	p.open++
	p.setEncoded(s, nil)
	return s
}

// decoded decodes a column that this process has encoded or validated.
func (p *pyramid) decoded(s *stored) *heat.Column {
	if s.open != nil {
		return s.open
	}
	c, err := p.codec.Parse(s.encoded)
	if err != nil {
		return nil
	}
	return c
}

func (p *pyramid) setEncoded(s *stored, encoded []byte) {
	before := s.encoded
	s.encoded = encoded
	for _, side := range []struct {
		src  []byte
		sign int64
	}{{before, -1}, {encoded, 1}} {
		if side.src != nil {
			p.sizeBytes += side.sign * int64(len(side.src)+columnBytes)
		}
	}
}

// close encodes the oldest open columns until at most keep are open.
func (p *pyramid) close(keep int) {
	for _, l := range p.levels {
		starts := slices.Sorted(maps.Keys(l.columns))
		for _, startMs := range starts[:max(0, len(starts)-1)] {
			s := l.columns[startMs]
			if p.open <= keep {
				return
			}
			if s.open != nil {
				p.setEncoded(s, p.codec.Append(nil, s.open))
				s.open = nil
				p.open--
			}
		}
	}
}

// drop removes the ranges that start in [start, end) from all columns.
func (p *pyramid) drop(start, end string) {
	for _, l := range p.levels {
		for _, s := range l.columns {
			c := p.decoded(s)
			if c == nil || !c.Drop(start, end) {
				continue
			}
			if s.dirty = true; s.open == nil {
				p.setEncoded(s, p.codec.Append(nil, c))
			}
		}
	}
}

// expire drops columns that are too old and returns the keys of their rows. If the columns use too much memory, it folds
// ranges.
func (p *pyramid) expire(nowMs int64) (expired []columnID) {
	for _, l := range p.levels {
		first := l.FirstMs(nowMs)
		for startMs, s := range l.columns {
			if startMs >= first {
				continue
			}
			if s.open != nil {
				p.open--
			}
			p.setEncoded(s, nil)
			delete(l.columns, startMs)
			expired = append(expired, columnID{l.letter, startMs})
		}
	}
	return expired
}

// foldRanges lists the numbers of ranges to which columns are reduced if they use too much memory.
func foldRanges() []int { return []int{256, 128, 64, 32, 16, 8, 4, 2, 1} }

// fold merges the coldest ranges of the oldest columns until all columns fit into bytesMax.
func (p *pyramid) fold() {
	for _, keep := range foldRanges() {
		for _, l := range p.levels {
			for _, startMs := range slices.Sorted(maps.Keys(l.columns)) {
				if p.sizeBytes <= p.bytesMax {
					return
				}
				s := l.columns[startMs]
				if s.open != nil {
					continue
				}
				c := p.decoded(s)
				if c == nil || len(c.Starts) <= keep {
					continue
				}
				c.Reduce(keep)
				p.setEncoded(s, p.codec.Append(nil, c))
				s.dirty = true
				p.folded++
			}
		}
	}
}

// newestStarts returns the ranges of the newest column.
func (p *pyramid) newestStarts() []string {
	for _, l := range p.levels {
		starts := slices.Sorted(maps.Keys(l.columns))
		if len(starts) == 0 {
			continue
		}
		if c := p.decoded(l.columns[starts[len(starts)-1]]); c != nil {
			return c.Starts
		}
	}
	return nil
}
