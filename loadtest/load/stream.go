package load

import (
	"math/rand/v2"

	"halite/loadtest/acked"
	"halite/loadtest/fleet"
)

// unitStream is the state of one unit in a stream.
type unitStream struct {
	unit      *fleet.Unit
	firstSlot int
	labels    [][]byte // encoded, of each series
	delayed   delayHeap
}

// encodeLabels encodes the labels of the unit's series.
func (u *unitStream) encodeLabels() {
	names := u.unit.Series()
	ends := make([]int, len(names))
	var blob []byte
	for i := range names {
		blob = AppendSeriesLabels(blob, names[i])
		ends[i] = len(blob)
	}
	blob = append([]byte(nil), blob...) // release the unused capacity
	u.labels = make([][]byte, len(names))
	start := 0
	for i, end := range ends {
		u.labels[i] = blob[start:end:end]
		start = end
	}
}

// Send takes an encoded request. The request is valid until it returns.
type Send func(*Request) error

// Stream makes the requests of one sender.
type Stream struct {
	fleet     *fleet.Fleet
	timeline  *Timeline
	disorder  Disorder
	limit     int // samples of a request
	shuffle   *rand.Rand
	splitStep bool // start a new request at each step
	units     []*unitStream
	batch     batch
	request   Request
	step      int
}

// NewStreams divides the fleet among the senders.
func NewStreams(o *Options, f *fleet.Fleet, t *Timeline) []*Stream {
	streams := make([]*Stream, o.Senders)
	for i := range streams {
		s := &Stream{fleet: f, timeline: t, disorder: NewDisorder(o), limit: o.RequestSamples}
		if o.Shuffle {
			s.shuffle = rand.New(rand.NewPCG(o.Fleet.Seed, uint64(i)))
			// The two writes of a sample must not swap. They belong to different steps.
			s.splitStep = o.RewrittenPercent > 0
		}
		for u := i; u < f.Units(); u += o.Senders {
			us := &unitStream{unit: f.Unit(u), firstSlot: f.SlotsBefore(u)}
			us.encodeLabels()
			s.units = append(s.units, us)
		}
		streams[i] = s
	}
	return streams
}

// NextStep returns the step that the next call of SendStep sends.
func (s *Stream) NextStep() int { return s.step }

// SendStep makes the samples of the next step and sends all requests that are full. After an error of send, the stream
// must not be used again.
func (s *Stream) SendStep(send Send) error {
	if s.shuffle != nil {
		s.shuffle.Shuffle(len(s.units), func(i, j int) { s.units[i], s.units[j] = s.units[j], s.units[i] })
	}
	for _, u := range s.units {
		if err := s.stepUnit(u, send); err != nil {
			return err
		}
	}
	s.step++
	if s.splitStep {
		return s.flush(send)
	}
	return nil
}

func (s *Stream) stepUnit(u *unitStream, send Send) error {
	values, renewed := u.unit.Step()
	if renewed {
		u.encodeLabels()
	}
	tsMs := s.timeline.TsMs(u.firstSlot, s.step)
	for i, v := range values {
		slot := u.firstSlot + i
		x := sample{u.labels[i], tsMs, v, acked.WriteID{Slot: uint32(slot), Step: uint32(s.step)}}
		order, delayMs := s.disorder.At(slot, s.step)
		if order == Rewritten {
			second := x
			second.value = s.fleet.Rewritten(slot, s.step, v)
			second.id.Step |= acked.SecondWrite
			u.delayed.push(delayedSample{tsMs + delayMs, second})
		}
		if order == Late || order == OutOfOrder {
			u.delayed.push(delayedSample{tsMs + delayMs, x})
			continue
		}
		if err := s.add(x, true, send); err != nil {
			return err
		}
	}
	for len(u.delayed) > 0 && u.delayed[0].dueMs <= tsMs {
		if err := s.add(u.delayed.pop().sample, false, send); err != nil {
			return err
		}
	}
	return nil
}

// add adds a sample to the batch and sends the batch if it is full.
func (s *Stream) add(x sample, inOrder bool, send Send) error {
	s.batch.add(x, inOrder)
	if len(s.batch.samples) < s.limit {
		return nil
	}
	return s.flush(send)
}

// flush sends the samples of the batch, if there are any.
func (s *Stream) flush(send Send) error {
	if len(s.batch.samples) == 0 {
		return nil
	}
	s.batch.encode(&s.request, s.shuffle)
	return send(&s.request)
}

// Drain sends all delayed samples and the last request.
func (s *Stream) Drain(send Send) error {
	for _, u := range s.units {
		for len(u.delayed) > 0 {
			if err := s.add(u.delayed.pop().sample, false, send); err != nil {
				return err
			}
		}
	}
	return s.flush(send)
}
