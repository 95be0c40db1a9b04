package ingest

import "halite/ingest/head"

// stripeSorter sorts samples by stripe of the head.
type stripeSorter struct {
	sorted []head.Sample
	starts []int
}

// of returns the samples of a stripe.
func (s *stripeSorter) of(stripe int) []head.Sample {
	return s.sorted[s.starts[stripe]:s.starts[stripe+1]]
}

// sort sorts samples by stripe, and keeps their order within each stripe. It leaves out samples with ref 0.
func (s *stripeSorter) sort(h *head.Head, samples []head.Sample) {
	stripes := h.Stripes()
	if len(s.starts) != stripes+1 {
		s.starts = make([]int, stripes+1)
	}
	clear(s.starts)
	count := 0
	for i := range samples {
		if ref := samples[i].Ref; ref != 0 {
			s.starts[h.Stripe(ref)]++
			count++
		}
	}
	// From counts to ends. Filling from the back turns the ends into starts.
	end := 0
	for i, n := range s.starts[:stripes] {
		end += n
		s.starts[i] = end
	}
	s.starts[stripes] = end
	if cap(s.sorted) < count {
		s.sorted = make([]head.Sample, count, max(count, cap(samples)))
	}
	s.sorted = s.sorted[:count]
	for i := len(samples) - 1; i >= 0; i-- {
		sample := &samples[i]
		if sample.Ref == 0 {
			continue
		}
		at := &s.starts[h.Stripe(sample.Ref)]
		*at--
		s.sorted[*at] = *sample
	}
}
