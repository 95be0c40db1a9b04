package presence

// Patterns numbers the patterns of hours in one compaction. The number of a day's pattern is its mask of hours. The number of a
// month's pattern is its index in list.
type Patterns struct {
	partition Partition
	list      []Pattern // from 1
	number    map[string]uint32
	joined    map[uint64]uint32 // results of join
	key       []byte
}

// joinedMax bounds the cached results. Most joins are of the same few pairs.
const joinedMax = 1 << 16

// NewPatterns numbers the patterns of a partition.
func NewPatterns(p Partition) *Patterns {
	return &Patterns{partition: p, list: make([]Pattern, 1), number: map[string]uint32{}, joined: map[uint64]uint32{}}
}

// Number returns the number of a pattern, 0 if it has no hours.
func (p *Patterns) Number(x Pattern) uint32 {
	switch {
	case len(x) == 0:
		return 0
	case !p.partition.IsMonth():
		return x[0].Hours
	}
	p.key = AppendRuns(p.key[:0], x)
	n, ok := p.number[string(p.key)]
	if !ok {
		n = uint32(len(p.list))
		p.list = append(p.list, append(Pattern(nil), x...))
		p.number[string(p.key)] = n
	}
	return n
}

// presencesMax is the number of patterns above which Reset drops them.
const presencesMax = 1 << 16

// Reset drops all patterns if there are too many. No number may be in use.
func (p *Patterns) Reset() {
	if len(p.list) > presencesMax {
		*p = *NewPatterns(p.partition)
	}
}

// Pattern returns the pattern of a number.
func (p *Patterns) Pattern(n uint32) Pattern {
	if p.partition.IsMonth() {
		return p.list[n]
	}
	if n == 0 {
		return nil
	}
	return Pattern{{Days: 1, Hours: n}}
}

// Touched is the mask of a day's hours, or of a month's days.
func (p *Patterns) Touched(n uint32) uint32 {
	if p.partition.IsMonth() {
		return p.list[n].days()
	}
	return n
}

// Join returns the number of the union of two patterns.
func (p *Patterns) Join(a, b uint32) uint32 {
	switch {
	case !p.partition.IsMonth():
		return a | b
	case a == b || b == 0:
		return a
	case a == 0:
		return b
	}
	pair := uint64(min(a, b))<<32 | uint64(max(a, b))
	n, ok := p.joined[pair]
	if !ok {
		var hours Window
		p.list[a].addTo(&hours)
		p.list[b].addTo(&hours)
		n = p.Number(PatternOf(&hours))
		if len(p.joined) >= joinedMax {
			clear(p.joined)
		}
		p.joined[pair] = n
	}
	return n
}
