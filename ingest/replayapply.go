package ingest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"halite/ingest/head"
	"halite/ingest/wal/record"
	"halite/storage/index"
)

const (
	logRefShift     = 12
	logRefChunkSize = 1 << logRefShift
	// retiredRef marks numbers whose samples replay passes over.
	retiredRef = ^uint32(0)
	// reliefPoll is the time between two looks at the head while the replay waits for a flush.
	reliefPoll = 5 * time.Millisecond
)

// replay applies the log to registry, catalogue and head.
type replay struct {
	i       *Ingester
	ctx     context.Context
	loader  *index.Loader
	refs    []*[logRefChunkSize]uint32 // by number in the log
	kept    []head.Sample              // of the batch under way
	stripes stripeSorter
	segment uint64
	lost    int
	samples atomic.Int64
	deleted []index.Ref // of a deletion whose last record is still to come
	relief  *relief     // under way; nil if none is
}

func newReplay(ctx context.Context, i *Ingester) *replay {
	return &replay{i: i, ctx: ctx, loader: i.opts.Index.NewLoader()}
}

// run applies batches, and hands them back for reuse, until there are no more or one fails.
func (p *replay) run(batches <-chan *replayBatch, used chan<- *replayBatch) error {
	for b := range batches {
		if err := p.apply(b); err != nil {
			return errors.Join(err, p.endRelief())
		}
		select {
		case used <- b:
		default:
		}
	}
	p.i.flusher.Wake()
	return p.endRelief()
}

func (p *replay) apply(b *replayBatch) error {
	p.segment = b.segment
	switch b.kind {
	case record.KindSeries:
		return p.restore(b)
	case record.KindSamples:
		return p.store(b)
	case record.KindMetadata:
		return record.ParseMetadata(b.payload, func(m record.Metadata) error {
			p.i.metadata.put(m.Metric, Metadata{Type: m.Type, Help: m.Help, Unit: m.Unit})
			return nil
		})
	default:
		return p.deletion(b.payload, b.records[0].pos)
	}
}

// restore gives the series of a batch their numbers in the log and their refs. Limits of series do not apply: the log
// has acknowledged samples of these series.
func (p *replay) restore(b *replayBatch) error {
	from := 0
	for n := range b.series {
		s := &b.series[n]
		ls := b.labels[from:s.labelsEnd]
		from = s.labelsEnd
		p.i.nextLog = max(p.i.nextLog, s.log+1)
		if len(ls) == 0 {
			p.i.flusher.AddStaleRef(s.log, 0, 0)
			p.setRef(s.log, retiredRef)
			continue
		}
		ref, err := p.loader.Add(ls)
		if err != nil {
			return fmt.Errorf("add series %s to the catalogue: %w", describeLabels(labels.New(ls...)), err)
		}
		p.i.restored(s, ref)
		p.setRef(s.log, uint32(ref))
	}
	return nil
}

// restored registers a series of the log that the catalogue has.
func (i *Ingester) restored(s *replaySeries, number index.Ref) {
	ref := uint32(number)
	switch former := i.head.LogRef(ref); former {
	case s.log:
		return
	case 0:
		i.series.Add(1)
	default:
		// It was forgotten and came back: the log may have samples under both numbers.
		i.flusher.AddStaleRef(former, number, 0)
	}
	i.head.Register(ref, s.log)
	i.registry.Insert(s.key, ref)
}

func (p *replay) ref(log uint32) uint32 {
	at := int(log >> logRefShift)
	if at >= len(p.refs) || p.refs[at] == nil {
		return 0
	}
	return p.refs[at][log&(logRefChunkSize-1)]
}

func (p *replay) setRef(log, ref uint32) {
	at := int(log >> logRefShift)
	for at >= len(p.refs) {
		p.refs = append(p.refs, nil)
	}
	if p.refs[at] == nil {
		p.refs[at] = new([logRefChunkSize]uint32)
	}
	p.refs[at][log&(logRefChunkSize-1)] = ref
}

// store appends the samples of a batch to the head.
func (p *replay) store(b *replayBatch) error {
	samples := p.kept[:0]
	for n := range b.samples {
		s := &b.samples[n]
		switch ref := p.ref(s.Ref); ref {
		case retiredRef:
		case 0:
			if !p.i.opts.AcceptWALLoss {
				return fmt.Errorf("%w: number %d at %s", errOrphan, s.Ref, b.position(n))
			}
			p.lost++
		default:
			samples = append(samples, head.Sample{Ref: ref, TsMs: s.TsMs, Value: s.Value})
		}
	}
	p.kept = samples
	p.samples.Add(int64(len(samples)))
	p.stripes.sort(p.i.head, samples)
	if err := p.append(); err != nil {
		return err
	}
	return p.relieve()
}

// append appends the samples that were divided by stripe, several stripes at a time.
func (p *replay) append() error {
	stripes, workers := p.i.head.Stripes(), runtime.GOMAXPROCS(0)
	errs := make([]error, workers)
	var working sync.WaitGroup
	for w := range workers {
		working.Go(func() {
			for stripe := w; stripe < stripes && errs[w] == nil; stripe += workers {
				if some := p.stripes.of(stripe); len(some) > 0 {
					errs[w] = p.appendStripe(stripe, some)
				}
			}
		})
	}
	working.Wait()
	return errors.Join(errs...)
}

func (p *replay) appendStripe(stripe int, samples []head.Sample) error {
	p.i.head.LockStripe(stripe)
	defer p.i.head.UnlockStripe(stripe)
	opened, err := p.i.head.Append(stripe, samples, p.segment, nil)
	for _, row := range opened {
		p.i.opts.Index.Touch(index.Ref(row.Ref), row.Hour)
	}
	return err
}

// relief is a flush of rows beside the replay.
type relief struct {
	cancel context.CancelFunc
	done   chan struct{}
	rows   int // written; valid after done, as err is
	err    error
}

// relieve keeps the head within the memory that it has while the server runs: the log may hold far more, because it still
// has samples that were flushed before the crash. Rows are flushed beside the replay, which waits only while the head is
// above the size from which writes are refused: what need not be flushed now can wait until the server is ready.
func (p *replay) relieve() error {
	most := p.i.admission.memory.rowBytesMax()
	for p.i.head.Bytes() > most || p.relief != nil {
		if p.relief == nil {
			p.startRelief()
		}
		select {
		case <-p.relief.done:
			if rows, err := p.awaitRelief(); err != nil || rows == 0 {
				return err
			}
			continue // samples that came beside the flush may need another
		default:
		}
		if p.i.head.Bytes() <= most/4*5 {
			return nil
		}
		time.Sleep(reliefPoll)
	}
	return nil
}

func (p *replay) startRelief() {
	ctx, cancel := context.WithCancel(p.ctx)
	r := &relief{cancel: cancel, done: make(chan struct{})}
	p.relief = r
	go func() {
		defer close(r.done)
		r.rows, r.err = p.i.flusher.FreeMemory(ctx)
	}()
}

// awaitRelief waits for the flush under way.
func (p *replay) awaitRelief() (rows int, err error) {
	r := p.relief
	<-r.done
	r.cancel()
	p.relief = nil
	return r.rows, r.err
}

// endRelief cuts off the flush under way. Rows that it has not written stay in the head.
func (p *replay) endRelief() error {
	if p.relief == nil {
		return nil
	}
	p.relief.cancel()
	if _, err := p.awaitRelief(); !errors.Is(err, context.Canceled) {
		return err
	}
	return p.ctx.Err()
}
