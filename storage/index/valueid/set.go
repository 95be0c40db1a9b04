package valueid

import "math/bits"

// Set is a set of value ids of one dictionary; bit 0 stands for the absent label.
type Set struct {
	words []uint64
	Count int // members other than 0
	only  uint32
}

func NewSet(idMax uint32) *Set { return &Set{words: make([]uint64, idMax/64+1)} }

// NewSingleton returns a set of one id without a bitmap.
func NewSingleton(id uint32) *Set { return &Set{Count: 1, only: id} }

func (s *Set) Add(id uint32) {
	w, b := id/64, uint64(1)<<(id%64)
	if s.words[w]&b != 0 {
		return
	}
	s.words[w] |= b
	if id != 0 {
		s.Count++
		s.only = id
	}
}

// Has reports membership; ids beyond the bitmap are not members.
func (s *Set) Has(id uint32) bool {
	if s.words == nil {
		return id == s.only && s.Count == 1
	}
	w := int(id / 64)
	return w < len(s.words) && s.words[w]>>(id%64)&1 != 0
}

// Holds reports whether the bitmap covers an id.
func (s *Set) Holds(id uint32) bool { return int(id/64) < len(s.words) }

// Grow extends the bitmap to an id.
func (s *Set) Grow(id uint32) {
	for !s.Holds(id) {
		s.words = append(s.words, 0)
	}
}

// Single returns the only member. ok is false if the set has another number of members or has the absent
// label.
func (s *Set) Single() (id uint32, ok bool) { return s.only, s.Count == 1 && !s.Has(0) }

// Empty reports whether the set has no members, not even the absent label.
func (s *Set) Empty() bool { return s.Count == 0 && !s.Has(0) }

func (s *Set) SizeBytes() int64 { return int64(8*len(s.words)) + 48 }

// ForEach calls fn for the members other than 0, ascending, until it returns false.
func (s *Set) ForEach(fn func(id uint32) bool) {
	if s.words == nil {
		if s.Count == 1 {
			fn(s.only)
		}
		return
	}
	for w, word := range s.words {
		for ; word != 0; word &= word - 1 {
			if id := uint32(w*64 + bits.TrailingZeros64(word)); id != 0 && !fn(id) {
				return
			}
		}
	}
}

// AppendRange appends the rows [from, to).
func AppendRange(dst []uint32, from, to uint32) []uint32 {
	for row := from; row < to; row++ {
		dst = append(dst, row)
	}
	return dst
}
