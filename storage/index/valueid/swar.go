package valueid

import "unsafe"

// Filter appends the rows in [from, to) whose id is in the set; ids[row] is the id of a row.
func Filter[T uint8 | uint16 | uint32](dst []uint32, ids []T, from, to uint32, set *Set) []uint32 {
	if want, one := set.Single(); one {
		if uint32(T(want)) != want {
			return dst // too wide for the column: no row has it
		}
		return filterOne(dst, ids[from:to], from, T(want))
	}
	for i, id := range ids[from:to] {
		if set.Has(uint32(id)) {
			dst = append(dst, from+uint32(i))
		}
	}
	return dst
}

// filterOne appends the rows from first on that have one id. It compares all ids of a word at once, because most searches
// look for one series among many.
func filterOne[T uint8 | uint16 | uint32](dst []uint32, ids []T, first uint32, want T) []uint32 {
	const wordBytes = 8
	lanes := wordBytes / int(unsafe.Sizeof(want))
	ones := ^uint64(0) / uint64(^T(0)) // the lowest bit of each lane
	tops := ones << (wordBytes*8/lanes - 1)
	pattern := ones * uint64(want)
	var words []uint64
	if len(ids) >= lanes { // fewer ids occupy less memory than a word
		words = unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(ids))), len(ids)/lanes)
	}
	for i, word := range words {
		// Subtracting 1 from a lane of 0 sets its top bit, which was clear.
		if x := word ^ pattern; (x-ones)&^x&tops == 0 {
			continue
		}
		for at := i * lanes; at < (i+1)*lanes; at++ {
			if ids[at] == want {
				dst = append(dst, first+uint32(at))
			}
		}
	}
	for at := len(words) * lanes; at < len(ids); at++ {
		if ids[at] == want {
			dst = append(dst, first+uint32(at))
		}
	}
	return dst
}
