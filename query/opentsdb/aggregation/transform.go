package aggregation

// Transform turns the samples of one series into the points that a group aggregates. The caller passes all samples of the
// range to Add, in order, then calls Points. A Transform is used once.
type Transform struct {
	down   *Downsampling
	rate   *Rate
	within Range

	out     Points
	current intervals
	fromMs  int64     // time of the first sample used
	toMs    int64     // exclusive end of the samples used
	started bool      // whether current is set
	pending []float64 // values of the current interval
}

// NewTransform returns a Transform. A nil down means no downsampling, and a nil rate means no rate.
func NewTransform(down *Downsampling, rate *Rate, within Range) *Transform {
	t := &Transform{down: down, rate: rate, within: within, fromMs: within.ReadFromMs, toMs: within.ReadToMs + 1}
	if down == nil {
		return t
	}
	t.current.down = down
	if down.All {
		t.fromMs, t.toMs = max(t.fromMs, within.StartMs), within.EndMs
	} else {
		t.fromMs = down.firstWhole(within.ReadFromMs)
	}
	return t
}

// Add adds samples. It keeps neither slice.
func (t *Transform) Add(tsMs []int64, values []float64) {
	for len(tsMs) > 0 && tsMs[0] < t.fromMs {
		tsMs, values = tsMs[1:], values[1:]
	}
	for n := len(tsMs); n > 0 && tsMs[n-1] >= t.toMs; n-- {
		tsMs, values = tsMs[:n-1], values[:n-1]
	}
	if t.down == nil {
		t.out.TsMs = append(t.out.TsMs, tsMs...)
		t.out.Values = append(t.out.Values, values...)
		return
	}
	if t.down.All {
		t.pending = append(t.pending, values...)
		return
	}
	for i, ts := range tsMs {
		if !t.started {
			t.current.begin(ts)
			t.started = true
		}
		if ts >= t.current.endMs {
			t.flush()
			t.current.reach(ts)
		}
		t.pending = append(t.pending, values[i])
	}
}

// flush ends the current interval.
func (t *Transform) flush() {
	if len(t.pending) > 0 {
		t.out.add(t.current.startMs, t.down.Function.doubles(t.pending))
		t.pending = t.pending[:0]
	}
}

// Points returns the points of the series. Do not call Add afterwards.
func (t *Transform) Points() Points {
	switch {
	case t.down == nil:
	case t.down.All:
		t.current.startMs = t.within.StartMs
		t.flush()
	default:
		t.flush()
		if t.down.Fill != FillNothing {
			t.out = t.down.filled(t.out, t.within)
		}
	}
	if t.rate != nil {
		t.out = t.rate.points(t.out, t.down != nil)
	}
	return t.out.from(t.within.ReadFromMs)
}

// Held returns the number of points and values in memory.
func (t *Transform) Held() int { return t.out.Len() + len(t.pending) }
