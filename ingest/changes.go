package ingest

import (
	"container/list"
	"slices"
	"sync"

	"halite/ingest/head"
)

const (
	changeSpanMs = int64(60_000)
	// changeSpansMax bounds the spans that are remembered, about 10 MB; of those forgotten all is taken as changed.
	changeSpansMax = 1 << 16
	// changeBits is the number of neighbouring spans that a request notes at no cost.
	changeBits = 64
	// changeMinutesMax is the number of other spans from which on a request notes whole hours: a backfill would make the
	// log forget what has changed lately.
	changeMinutesMax = 64
	minutesPerHour   = 60
)

// changeLog remembers when the samples of which minutes were last changed, so that whoever keeps what it once read can
// tell whether it is still right. Generations count changes. The spans changed last are at the front of the list: a
// question looks only at what has changed since.
type changeLog struct {
	mu         sync.Mutex
	generation uint64
	spans      map[int64]*list.Element
	order      list.List // of changedSpan
	forgotten  uint64    // the last generation at which a span that is not remembered changed
}

type changedSpan struct {
	span       int64 // minutes since 1970, or what hourSpan says
	generation uint64
}

// hourSpan names the hour of a minute as a whole.
func hourSpan(minute int64) int64 { return ^(minute / minutesPerHour) }

// times returns the first and the last time of a span.
func (s *changedSpan) times() (fromMs, toMs int64) {
	if s.span < 0 {
		return ^s.span * minutesPerHour * changeSpanMs, (^s.span+1)*minutesPerHour*changeSpanMs - 1
	}
	return s.span * changeSpanMs, (s.span+1)*changeSpanMs - 1
}

func newChangeLog() *changeLog { return &changeLog{spans: map[int64]*list.Element{}} }

// note says that samples of the spans have changed. It must be called after readers can see the change and before
// anyone is told of it.
func (c *changeLog) note(first int64, bits uint64, others []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation++
	for i := int64(0); bits != 0; i, bits = i+1, bits>>1 {
		if bits&1 != 0 {
			c.touch(first + i)
		}
	}
	for _, span := range others {
		c.touch(span)
	}
}

func (c *changeLog) touch(span int64) {
	if e := c.spans[span]; e != nil {
		e.Value.(*changedSpan).generation = c.generation
		c.order.MoveToFront(e)
		return
	}
	c.spans[span] = c.order.PushFront(&changedSpan{span, c.generation})
	if len(c.spans) > changeSpansMax {
		last := c.order.Back()
		c.order.Remove(last)
		gone := last.Value.(*changedSpan)
		delete(c.spans, gone.span)
		c.forgotten = max(c.forgotten, gone.generation)
	}
}

// noteTimes says that samples with mintMs ≤ time ≤ maxtMs have changed.
func (c *changeLog) noteTimes(mintMs, maxtMs int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation++
	first, last := mintMs/changeSpanMs, maxtMs/changeSpanMs
	if last-first < changeMinutesMax {
		for span := first; span <= last; span++ {
			c.touch(span)
		}
		return
	}
	if first, last = first/minutesPerHour, last/minutesPerHour; last-first >= changeSpansMax {
		c.forgotten = c.generation
		return
	}
	for hour := first; hour <= last; hour++ {
		c.touch(hourSpan(hour * minutesPerHour))
	}
}

func (c *changeLog) current() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.generation
}

func (c *changeLog) since(generation uint64, mintMs, maxtMs int64) (fromMs, toMs int64, changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if generation < c.forgotten {
		return mintMs, maxtMs, true
	}
	for e := c.order.Front(); e != nil; e = e.Next() {
		s := e.Value.(*changedSpan)
		if s.generation <= generation {
			break
		}
		from, to := s.times()
		if from, to = max(mintMs, from), min(maxtMs, to); from > to {
			continue
		}
		if !changed {
			fromMs, toMs, changed = from, to, true
			continue
		}
		fromMs, toMs = min(fromMs, from), max(toMs, to)
	}
	return fromMs, toMs, changed
}

// noteChanges tells the change log of all samples of the request that may be in the head.
func (r *request) noteChanges(samples []head.Sample) {
	if len(samples) == 0 {
		return
	}
	// Most requests lie within an hour: they cost hardly more than a subtraction a sample.
	first := max(0, samples[0].TsMs/changeSpanMs-changeBits/2)
	startMs, bits := first*changeSpanMs, uint64(0)
	lastMs := startMs - changeSpanMs // start of the span noted last
	r.spans = r.spans[:0]
	for i := range samples {
		if uint64(samples[i].TsMs-lastMs) < uint64(changeSpanMs) {
			continue
		}
		if at := uint64(samples[i].TsMs-startMs) / uint64(changeSpanMs); at < changeBits {
			bits |= 1 << at
			lastMs = startMs + int64(at)*changeSpanMs
			continue
		}
		span := samples[i].TsMs / changeSpanMs
		if n := len(r.spans); n == 0 || r.spans[n-1] != span {
			r.spans = append(r.spans, span)
		}
	}
	// A backfill may go over the same hours for each series.
	slices.Sort(r.spans)
	r.spans = slices.Compact(r.spans)
	if len(r.spans) > changeMinutesMax {
		for ; bits != 0; first, bits = first+1, bits>>1 {
			if bits&1 != 0 {
				r.spans = append(r.spans, first)
			}
		}
		for n := range r.spans {
			r.spans[n] = hourSpan(r.spans[n])
		}
		slices.Sort(r.spans)
		r.spans = slices.Compact(r.spans)
	}
	r.i.changes.note(first, bits, r.spans)
}

// Generation counts the changes of samples so far, since the start.
func (i *intake) Generation() uint64 { return i.changes.current() }

// ChangedSince reports whether samples with mintMs ≤ time ≤ maxtMs may have been added or replaced since there was
// that generation, and between which times. What was acknowledged is always told; what is told may be more than
// what has changed: whole minutes, or hours after changes of very many minutes, for all series.
func (i *intake) ChangedSince(generation uint64, mintMs, maxtMs int64) (fromMs, toMs int64, changed bool) {
	return i.changes.since(generation, mintMs, maxtMs)
}
