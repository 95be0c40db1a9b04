package loadtest

import (
	"math/rand/v2"

	"halite/loadtest/fleet"
)

// manner is how a sample is sent.
type manner uint8

const (
	inTime manner = iota
	outOfOrder
	late
	rewritten
)

// disorder decides the manner of every sample from the seed alone, so that the verification can ask again.
type disorder struct {
	seed                        uint64
	outOfOrder, late, rewritten float64 // shares, 0 to 1
	lateMs                      float64
}

func newDisorder(o *Options) disorder {
	return disorder{
		seed: o.Fleet.Seed ^ 0x5851f42d4c957f2d, outOfOrder: o.OutOfOrderPercent / 100, late: o.LatePercent / 100,
		rewritten: o.RewrittenPercent / 100, lateMs: float64(o.LateBy.Milliseconds()),
	}
}

// of returns the manner of a sample, and by how much it, or its second write, is sent late.
func (d *disorder) of(slot, step int) (manner, int64) {
	if d.outOfOrder+d.late+d.rewritten == 0 {
		return inTime, 0
	}
	r := fleet.Mix(d.seed, uint64(slot), uint64(step))
	x := fleet.Unit01(r)
	delayMs := int64(d.lateMs*(0.5+fleet.Unit01(fleet.Mix(r, 1, 2)))) + 1
	switch {
	case x < d.late:
		return late, delayMs
	case x < d.late+d.rewritten:
		return rewritten, delayMs
	case x < d.late+d.rewritten+d.outOfOrder:
		return outOfOrder, 1 // due right after the next sample of its series
	}
	return inTime, 0
}

// held is a sample that is to be sent once its unit has sent a sample of dueMs or later.
type held struct {
	dueMs int64
	sample
}

// heldHeap has the sample that is due first at index 0.
type heldHeap []held

func (h *heldHeap) push(x held) {
	*h = append(*h, x)
	q := *h
	for i := len(q) - 1; i > 0; {
		parent := (i - 1) / 2
		if q[parent].dueMs <= q[i].dueMs {
			return
		}
		q[parent], q[i] = q[i], q[parent]
		i = parent
	}
}

func (h *heldHeap) pop() held {
	q := *h
	top, end := q[0], len(q)-1
	q[0] = q[end]
	q[end] = held{}
	q = q[:end]
	*h = q
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(q) {
			return top
		}
		if child+1 < len(q) && q[child+1].dueMs < q[child].dueMs {
			child++
		}
		if q[i].dueMs <= q[child].dueMs {
			return top
		}
		q[i], q[child] = q[child], q[i]
		i = child
	}
}

// unitStream is one unit as a sender sees it.
type unitStream struct {
	unit      *fleet.Unit
	firstSlot int
	labels    [][]byte
	held      heldHeap
}

func (u *unitStream) relabel() {
	names := u.unit.Series()
	ends := make([]int, len(names))
	var blob []byte
	for i := range names {
		blob = appendSeriesLabels(blob, names[i])
		ends[i] = len(blob)
	}
	blob = append([]byte(nil), blob...) // what was too much of it goes
	u.labels = make([][]byte, len(names))
	start := 0
	for i, end := range ends {
		u.labels[i] = blob[start:end:end]
		start = end
	}
}

// stream makes the requests of one sender.
type stream struct {
	fleet    *fleet.Fleet
	timeline *timeline
	disorder disorder
	limit    int
	shuffle  *rand.Rand
	cutSteps bool // no request holds samples of two steps
	units    []*unitStream
	batch    batch
	step     int
}

// newStreams divides the fleet among senders.
func newStreams(o *Options, f *fleet.Fleet, t *timeline) []*stream {
	streams := make([]*stream, o.Senders)
	for i := range streams {
		s := &stream{fleet: f, timeline: t, disorder: newDisorder(o), limit: o.RequestSamples}
		if o.Shuffle {
			s.shuffle = rand.New(rand.NewPCG(o.Fleet.Seed, uint64(i)))
			// A sample and its second write must not change places.
			s.cutSteps = o.RewrittenPercent > 0
		}
		for u := i; u < f.Units(); u += o.Senders {
			us := &unitStream{unit: f.Unit(u), firstSlot: f.SlotsBefore(u)}
			us.relabel()
			s.units = append(s.units, us)
		}
		streams[i] = s
	}
	return streams
}

// next hands the requests of the next step to send, which gets a batch to encode. It ends at the first error of send,
// after which the stream is of no more use.
func (s *stream) next(send func(*batch) error) error {
	if s.shuffle != nil {
		s.shuffle.Shuffle(len(s.units), func(i, j int) { s.units[i], s.units[j] = s.units[j], s.units[i] })
	}
	for _, u := range s.units {
		if err := s.stepUnit(u, send); err != nil {
			return err
		}
	}
	s.step++
	if s.cutSteps {
		return s.flush(send)
	}
	return nil
}

func (s *stream) stepUnit(u *unitStream, send func(*batch) error) error {
	values, renewed := u.unit.Step()
	if renewed {
		u.relabel()
	}
	tsMs := s.timeline.tsMs(u.firstSlot, s.step)
	for i, v := range values {
		slot := u.firstSlot + i
		x := sample{u.labels[i], tsMs, v, mark{uint32(slot), uint32(s.step)}}
		how, delayMs := s.disorder.of(slot, s.step)
		if how == rewritten {
			again := x
			again.value = s.fleet.Rewritten(slot, s.step, v)
			again.mark.step |= secondWrite
			u.held.push(held{tsMs + delayMs, again})
		}
		if how == late || how == outOfOrder {
			u.held.push(held{tsMs + delayMs, x})
			continue
		}
		if err := s.add(x, true, send); err != nil {
			return err
		}
	}
	for len(u.held) > 0 && u.held[0].dueMs <= tsMs {
		if err := s.add(u.held.pop().sample, false, send); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) add(x sample, fresh bool, send func(*batch) error) error {
	s.batch.add(x, fresh)
	if len(s.batch.samples) < s.limit {
		return nil
	}
	return send(&s.batch)
}

// flush sends what is left of a request.
func (s *stream) flush(send func(*batch) error) error {
	if len(s.batch.samples) == 0 {
		return nil
	}
	return send(&s.batch)
}

// drain sends what is still held back, then the last request.
func (s *stream) drain(send func(*batch) error) error {
	for _, u := range s.units {
		for len(u.held) > 0 {
			if err := s.add(u.held.pop().sample, false, send); err != nil {
				return err
			}
		}
	}
	return s.flush(send)
}
