package head

const (
	// prefetchSamples is the number of samples whose rows are loaded in parallel.
	prefetchSamples = 32
	// prefetchSpan is a span of refs. Within it, the rows of prefetchSamples samples are neighbors and need no prefetch.
	prefetchSpan = 16 * prefetchSamples
)

// prefetch loads the rows of scattered series before their samples are appended, so that the cache misses overlap. It changes
// no row.
func (s *stripe) prefetch(chunks []*slotChunk, samples []Sample) {
	minRef, maxRef := samples[0].Ref, samples[0].Ref
	for i := range samples {
		minRef, maxRef = min(minRef, samples[i].Ref), max(maxRef, samples[i].Ref)
	}
	if maxRef-minRef < prefetchSpan {
		return
	}
	var rows [prefetchSamples]*row
	for i := range samples {
		if n := chunks[samples[i].Ref>>slotShift][samples[i].Ref&(slotChunkSize-1)].row; n != 0 {
			rows[i] = s.row(n)
		}
	}
	prefetched := uint8(0)
	for _, r := range rows {
		if r != nil {
			prefetched += uint8(r.counts)
		}
	}
	for _, r := range rows {
		if r != nil && r.tail != 0 {
			t := s.tail(r)
			prefetched += t[0] + t[len(t)-1]
		}
	}
	s.prefetched = prefetched // so that the compiler keeps the loads
}
