package head

// StripeSorter sorts samples by stripe of a head.
type StripeSorter struct {
	sorted []Sample // by stripe
	starts []int
}

// Stripe returns the samples of a stripe.
func (s *StripeSorter) Stripe(stripe int) []Sample {
	return s.sorted[s.starts[stripe]:s.starts[stripe+1]]
}

// Sorted returns all samples, by stripe.
func (s *StripeSorter) Sorted() []Sample { return s.sorted }

// Sort sorts samples by stripe, and keeps their order within each stripe. It omits samples with ref 0.
func (s *StripeSorter) Sort(h *Head, samples []Sample) {
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
		s.sorted = make([]Sample, count, max(count, cap(samples)))
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
