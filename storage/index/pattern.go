package index

import (
	"encoding/binary"
)

// A pattern is the hours in which a series has samples within a period: runs of days with the same hours. Most series
// of a period share a few patterns, so that blocks number them.

// dayRun gives each of the days [day, day+days), counted from the period's first, the same hours.
type dayRun struct {
	day, days uint8
	hours     uint32
}

// pattern is in normal form: ascending, no run without hours, no two runs that could be one.
type pattern []dayRun

// window is the hours that a query asks of each day of a period; 0 for days that it takes from elsewhere.
type window [monthDaysMax]uint32

// meets reports whether the pattern has hours in the window.
func (p pattern) meets(w *window) bool {
	for _, r := range p {
		for d := r.day; d < r.day+r.days; d++ {
			if r.hours&w[d] != 0 {
				return true
			}
		}
	}
	return false
}

// appendSpans appends the pattern's hours that lie in the window.
func (p pattern) appendSpans(spans []HourSpan, firstDay int64, w *window) []HourSpan {
	for _, r := range p {
		for d := r.day; d < r.day+r.days; d++ {
			if hours := r.hours & w[d]; hours != 0 {
				spans = appendSpans(spans, firstDay+int64(d), hours)
			}
		}
	}
	return spans
}

// later moves the pattern by some days.
func (p pattern) later(days uint8) pattern {
	if days == 0 {
		return p
	}
	out := make(pattern, len(p))
	for i, r := range p {
		out[i] = dayRun{day: r.day + days, days: r.days, hours: r.hours}
	}
	return out
}

// days is the mask of the pattern's days.
func (p pattern) days() uint32 {
	mask := uint32(0)
	for _, r := range p {
		mask |= (1<<r.days - 1) << r.day
	}
	return mask
}

// patternOf makes the normal form of the hours of each day.
func patternOf(hours *window) pattern {
	var out pattern
	for d, h := range hours {
		if h == 0 {
			continue
		}
		if k := len(out) - 1; k >= 0 && out[k].hours == h && int(out[k].day+out[k].days) == d {
			out[k].days++
			continue
		}
		out = append(out, dayRun{day: uint8(d), days: 1, hours: h})
	}
	return out
}

// addTo joins the pattern with the hours of each day.
func (p pattern) addTo(hours *window) {
	for _, r := range p {
		for d := r.day; d < r.day+r.days; d++ {
			hours[d] |= r.hours
		}
	}
}

func appendPattern(dst []byte, p pattern) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(p)))
	next := uint8(0)
	for _, r := range p {
		dst = binary.AppendUvarint(dst, uint64(r.day-next))
		dst = binary.AppendUvarint(dst, uint64(r.days))
		dst = binary.AppendUvarint(dst, uint64(r.hours))
		next = r.day + r.days
	}
	return dst
}

// readPattern appends the runs of a pattern of a month.
func readPattern(c *cursor, runs []dayRun) []dayRun {
	n, next := c.count(3), uint64(0)
	for i := 0; i < n && c.err == nil; i++ {
		step, days := c.number(monthDaysMax), c.number(monthDaysMax)
		r := dayRun{day: uint8(next) + uint8(step), days: uint8(days), hours: c.number(hoursMask)}
		if days == 0 || r.hours == 0 || next+uint64(step)+uint64(days) > monthDaysMax ||
			i > 0 && step == 0 && runs[len(runs)-1].hours == r.hours {
			c.fail(errRange)
			return runs
		}
		next += uint64(step) + uint64(days)
		runs = append(runs, r)
	}
	return runs
}

// presences numbers the patterns that a fold meets. In a day the number is the mask of hours itself, in a month it is
// that of a table.
type presences struct {
	month  bool
	list   []pattern // from 1
	number map[string]uint32
	joined map[uint64]uint32 // results of join
	key    []byte
}

// joinedMax bounds the results that are kept; most joins are of the same few pairs.
const joinedMax = 1 << 16

func newPresences(month bool) *presences {
	return &presences{month: month, list: make([]pattern, 1), number: map[string]uint32{}, joined: map[uint64]uint32{}}
}

// of returns the number of a pattern, 0 if it has no hours.
func (p *presences) of(x pattern) uint32 {
	switch {
	case len(x) == 0:
		return 0
	case !p.month:
		return x[0].hours
	}
	p.key = appendPattern(p.key[:0], x)
	n, ok := p.number[string(p.key)]
	if !ok {
		n = uint32(len(p.list))
		p.list = append(p.list, append(pattern(nil), x...))
		p.number[string(p.key)] = n
	}
	return n
}

// presencesMax is the number of patterns from which on reset forgets them.
const presencesMax = 1 << 16

// reset forgets all patterns if they are many. No number may be in use.
func (p *presences) reset() {
	if len(p.list) > presencesMax {
		*p = *newPresences(p.month)
	}
}

// pattern returns the pattern of a number.
func (p *presences) pattern(n uint32) pattern {
	if p.month {
		return p.list[n]
	}
	if n == 0 {
		return nil
	}
	return pattern{{days: 1, hours: n}}
}

// touched is the mask of a day's hours, or of a month's days.
func (p *presences) touched(n uint32) uint32 {
	if p.month {
		return p.list[n].days()
	}
	return n
}

// join is the number of both patterns together.
func (p *presences) join(a, b uint32) uint32 {
	switch {
	case !p.month:
		return a | b
	case a == b || b == 0:
		return a
	case a == 0:
		return b
	}
	pair := uint64(min(a, b))<<32 | uint64(max(a, b))
	n, ok := p.joined[pair]
	if !ok {
		var hours window
		p.list[a].addTo(&hours)
		p.list[b].addTo(&hours)
		n = p.of(patternOf(&hours))
		if len(p.joined) >= joinedMax {
			clear(p.joined)
		}
		p.joined[pair] = n
	}
	return n
}

// daysWithin is the mask of the days of a period, counted from its first, of which the window has every hour.
func (w *window) daysWithin() uint32 {
	mask := uint32(0)
	for d, hours := range w {
		if hours == hoursMask {
			mask |= 1 << d
		}
	}
	return mask
}
