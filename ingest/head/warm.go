package head

const (
	// warmSamples is the number of samples whose rows are touched side by side.
	warmSamples = 32
	// warmSpan is the span of refs below which so many samples are taken for neighbours, whose rows lie side by side.
	warmSpan = 16 * warmSamples
)

// warm touches the rows that samples of scattered series go to, all at once: what one waits for from memory hides behind
// what the others wait for. It changes nothing.
func (s *stripe) warm(chunks []*slotChunk, samples []Sample) {
	least, most := samples[0].Ref, samples[0].Ref
	for i := range samples {
		least, most = min(least, samples[i].Ref), max(most, samples[i].Ref)
	}
	if most-least < warmSpan {
		return
	}
	var rows [warmSamples]*row
	for i := range samples {
		if n := chunks[samples[i].Ref>>slotShift][samples[i].Ref&(slotChunkSize-1)].row; n != 0 {
			rows[i] = s.row(n)
		}
	}
	touched := uint8(0)
	for _, r := range rows {
		if r != nil {
			touched += uint8(r.counts)
		}
	}
	for _, r := range rows {
		if r != nil && r.tail != 0 {
			t := s.tail(r)
			touched += t[0] + t[len(t)-1]
		}
	}
	s.touched = touched // so that the compiler cannot leave the loads out
}
