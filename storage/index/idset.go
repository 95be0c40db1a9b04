package index

import "math/bits"

// idSet is a set of value ids of one dictionary; bit 0 stands for the absent label.
type idSet struct {
	words []uint64
	count int // members other than 0
	only  uint32
}

func newIDSet(idMax uint32) *idSet { return &idSet{words: make([]uint64, idMax/64+1)} }

// singleton holds one id without a bitmap.
func singleton(id uint32) *idSet { return &idSet{count: 1, only: id} }

func (s *idSet) add(id uint32) {
	w, b := id/64, uint64(1)<<(id%64)
	if s.words[w]&b != 0 {
		return
	}
	s.words[w] |= b
	if id != 0 {
		s.count++
		s.only = id
	}
}

// has reports membership; ids beyond the bitmap are no members.
func (s *idSet) has(id uint32) bool {
	if s.words == nil {
		return id == s.only && s.count == 1
	}
	w := int(id / 64)
	return w < len(s.words) && s.words[w]>>(id%64)&1 != 0
}

// single returns the only member; ok is false if there are more, none, or the absent label is one.
func (s *idSet) single() (id uint32, ok bool) { return s.only, s.count == 1 && !s.has(0) }

// none reports that nothing, not even the absent label, is a member.
func (s *idSet) none() bool { return s.count == 0 && !s.has(0) }

func (s *idSet) sizeBytes() int64 { return int64(8*len(s.words)) + 48 }

// each calls fn for the members other than 0, ascending, until it returns false.
func (s *idSet) each(fn func(id uint32) bool) {
	if s.words == nil {
		if s.count == 1 {
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
