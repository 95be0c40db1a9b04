package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"halite/ingest/head"
	logreplay "halite/ingest/replay"
	"halite/ingest/wal"
	"halite/ingest/wal/record"
	"halite/keyschema"
	"halite/storage/index"

	"github.com/prometheus/prometheus/model/labels"
)

// replayReportInterval is the time between two log lines of a replay. replayWatchInterval is the time between two calls of
// Options.Replaying.
const (
	replayReportInterval = 5 * time.Second
	replayWatchInterval  = 500 * time.Millisecond
)

// errOrphan means that the log has samples of a series without a series record.
var errOrphan = errors.New("samples without a series record in the write-ahead log")

// replayLog runs once, before the first write. Two goroutines share the work: a Reader decodes records, and a replay applies
// them.
func (i *Ingester) replayLog(ctx context.Context) error {
	start := time.Now()
	reader, err := logreplay.NewReader(ctx, i.registry)
	if err != nil {
		return err
	}
	defer reader.Close()
	p := newReplay(ctx, i)
	go func() { reader.Stop(p.run(reader)) }()
	reported := p.report(start)
	stats, err := i.log.Replay(reader.Record, reader.Finish)
	err = errors.Join(err, reader.Finish())
	reported()
	if err != nil {
		return fmt.Errorf("replay the write-ahead log: %w", err)
	}
	until, err := i.log.Rotate()
	if err != nil {
		return fmt.Errorf("rotate the log: %w", err)
	}
	i.flusher.StaleUntil(until)
	if err := p.cleanIndex(); err != nil {
		return err
	}
	p.summarize(stats, time.Since(start))
	return nil
}

// summarize counts and logs the result.
func (p *replay) summarize(stats wal.ReplayStats, took time.Duration) {
	i := p.i
	i.metrics.replayed.Add(float64(p.samples.Load()))
	i.metrics.orphans.Add(float64(p.lost))
	if stats.Segments == 0 {
		i.logger.Info("the write-ahead log is new")
	} else {
		i.logger.Info("write-ahead log read back", "segments", stats.Segments, "series", i.series.Load(),
			"samples", p.samples.Load(), "clean", stats.Clean, "duration", took.Round(time.Millisecond))
	}
	for _, loss := range stats.Losses {
		i.logger.Warn("lost a part of the write-ahead log; the loss was accepted", "damage", loss.Damage.Error())
	}
	if p.lost > 0 {
		i.logger.Warn("lost samples with the log's series records; the loss was accepted", "samples", p.lost)
	}
}

// progress returns the progress of the replay.
func (p *replay) progress() ReplayProgress {
	now := ReplayProgress{Series: p.i.series.Load(), Samples: p.samples.Load()}
	now.Bytes, now.TotalBytes = p.i.log.ReplayProgress()
	return now
}

// report reports the progress to Options.Replaying and to the logger until stop is called.
func (p *replay) report(start time.Time) (stop func()) {
	ctx, cancel := context.WithCancel(p.ctx)
	done := make(chan struct{})
	watcher := p.i.opts.Replaying
	if watcher == nil {
		watcher = func(ReplayProgress) {}
	}
	go func() {
		defer close(done)
		defer func() { watcher(p.progress()) }()
		watch, lines := time.NewTicker(replayWatchInterval), time.NewTicker(replayReportInterval)
		defer watch.Stop()
		defer lines.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-watch.C:
				watcher(p.progress())
			case <-lines.C:
				now := p.progress()
				p.i.logger.Info("replaying the write-ahead log", "percent", now.Percent(), "bytes", now.Bytes,
					"total_bytes", now.TotalBytes, "series", now.Series, "samples", now.Samples,
					"elapsed", time.Since(start).Round(time.Second))
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

const (
	logRefShift     = 12
	logRefChunkSize = 1 << logRefShift
	// retiredRef marks log numbers whose samples replay skips.
	retiredRef = ^uint32(0)
	// reliefPoll is the time between two checks of the head while the replay waits for a flush.
	reliefPoll = 5 * time.Millisecond
)

// replay applies the log to registry, index and head.
type replay struct {
	i       *Ingester
	ctx     context.Context
	loader  *index.Loader
	refs    []*[logRefChunkSize]uint32 // by number in the log
	floats  []head.Sample              // of the current batch, as records
	records []head.Record
	stripes head.StripeSorter
	segment uint64
	lost    int
	samples atomic.Int64
	deleted []uint32 // series of a deletion whose last record is still to come
	relief  *relief  // the running flush; nil if none runs
}

func newReplay(ctx context.Context, i *Ingester) *replay {
	return &replay{i: i, ctx: ctx, loader: i.index.NewLoader()}
}

// run applies batches until there are no more or one fails.
func (p *replay) run(reader *logreplay.Reader) error {
	for b := range reader.Batches() {
		if err := p.apply(b); err != nil {
			return errors.Join(err, p.endRelief())
		}
		reader.Reuse(b)
	}
	p.i.flusher.Wake()
	return p.endRelief()
}

func (p *replay) apply(b *logreplay.Batch) error {
	p.segment = b.Segment
	switch b.Kind {
	case record.KindSeries:
		return p.restore(b)
	case record.KindSamples:
		return p.store(b, keyschema.Floats)
	case record.KindStartTimes:
		return p.store(b, keyschema.StartTimes)
	case record.KindHistograms:
		return p.storeEncoded(b, keyschema.Histograms)
	case record.KindExemplars:
		return p.storeEncoded(b, keyschema.Exemplars)
	case record.KindMetadata:
		return record.ParseMetadata(b.Payload, func(m record.Metadata) error {
			p.i.metadata.put(m.Metric, Metadata{Type: m.Type, Help: m.Help, Unit: m.Unit})
			return nil
		})
	default:
		return p.deletion(b.Payload, b.First())
	}
}

// restore gives the series of a batch their numbers in the log and their refs. It ignores series limits, because samples of
// these series were acknowledged.
func (p *replay) restore(b *logreplay.Batch) error {
	for n := range b.Series {
		s, ls := &b.Series[n], b.Labels(n)
		p.i.nextLog = max(p.i.nextLog, s.Log+1)
		if len(ls) == 0 {
			p.i.flusher.AddStaleRef(s.Log, 0, 0)
			p.setRef(s.Log, retiredRef)
			continue
		}
		ref, err := p.loader.Add(ls)
		if err != nil {
			return fmt.Errorf("add series %s to the index: %w", describeLabels(labels.New(ls...)), err)
		}
		p.i.restored(s, ref)
		p.setRef(s.Log, uint32(ref))
	}
	return nil
}

// restored registers a series of the log that the index holds.
func (i *Ingester) restored(s *logreplay.Series, number index.Ref) {
	ref := uint32(number)
	switch former := i.head.LogRef(ref); former {
	case s.Log:
		return
	case 0:
		i.series.Add(1)
	default:
		// The series was removed and created again. The log may have samples under both numbers.
		i.flusher.AddStaleRef(former, number, 0)
	}
	i.head.Register(ref, s.Log)
	i.registry.Insert(s.Key, ref)
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

// refOf returns the ref of the n-th sample of a batch, or 0 if replay skips the sample.
func (p *replay) refOf(b *logreplay.Batch, n int, log uint32) (uint32, error) {
	switch ref := p.ref(log); ref {
	case retiredRef:
		return 0, nil
	case 0:
		if !p.i.opts.AcceptWALLoss {
			return 0, fmt.Errorf("%w: number %d at %s", errOrphan, log, b.Position(n))
		}
		p.lost++
		return 0, nil
	default:
		return ref, nil
	}
}

// store appends the floats or start times of a batch to the head.
func (p *replay) store(b *logreplay.Batch, kind keyschema.SampleKind) error {
	samples := p.floats[:0]
	for n := range b.Samples {
		s := &b.Samples[n]
		ref, err := p.refOf(b, n, s.Ref)
		if err != nil {
			return err
		}
		if ref != 0 {
			samples = append(samples, head.Sample{Ref: ref, TsMs: s.TsMs, Value: s.Value})
		}
	}
	p.floats = samples
	p.samples.Add(int64(len(samples)))
	p.stripes.Sort(p.i.head, samples)
	if err := p.forEachStripe(func(stripe int) error {
		some := p.stripes.Stripe(stripe)
		if len(some) == 0 {
			return nil
		}
		p.i.head.LockStripe(stripe)
		defer p.i.head.UnlockStripe(stripe)
		_, err := p.i.appendNumbers(stripe, kind, some, p.segment, nil)
		return err
	}); err != nil {
		return err
	}
	return p.relieve()
}

// storeEncoded appends the histograms or exemplars of a batch to the head.
func (p *replay) storeEncoded(b *logreplay.Batch, kind keyschema.SampleKind) error {
	records := p.records[:0]
	for n := range b.Encoded {
		s := &b.Encoded[n]
		ref, err := p.refOf(b, n, s.Ref)
		if err != nil {
			return err
		}
		if ref != 0 {
			records = append(records, head.Record{Ref: ref, TsMs: s.TsMs, Data: s.Data})
		}
	}
	p.records = records
	p.samples.Add(int64(len(records)))
	slices.SortStableFunc(records, func(a, b head.Record) int { // like Ingester.storeRecords
		return cmp.Compare(p.i.head.Stripe(a.Ref), p.i.head.Stripe(b.Ref))
	})
	if err := p.forEachStripe(func(stripe int) error {
		from, _ := slices.BinarySearchFunc(records, stripe, p.compareStripe)
		to, _ := slices.BinarySearchFunc(records, stripe+1, p.compareStripe)
		if from == to {
			return nil
		}
		p.i.head.LockStripe(stripe)
		defer p.i.head.UnlockStripe(stripe)
		return p.i.appendRecords(stripe, kind, records[from:to], p.segment)
	}); err != nil {
		return err
	}
	return p.relieve()
}

func (p *replay) compareStripe(r head.Record, stripe int) int {
	return cmp.Compare(p.i.head.Stripe(r.Ref), stripe)
}

// forEachStripe visits all stripes, several at a time.
func (p *replay) forEachStripe(visit func(stripe int) error) error {
	stripes, workers := p.i.head.Stripes(), runtime.GOMAXPROCS(0)
	errs := make([]error, workers)
	var working sync.WaitGroup
	for w := range workers {
		working.Go(func() {
			for stripe := w; stripe < stripes && errs[w] == nil; stripe += workers {
				errs[w] = visit(stripe)
			}
		})
	}
	working.Wait()
	return errors.Join(errs...)
}

// relief is a flush of rows during the replay.
type relief struct {
	cancel context.CancelFunc
	done   chan struct{}
	rows   int // number of written rows; valid after done, like err
	err    error
}

// relieve keeps the head within its memory limit. The log may hold far more samples than the head, because it still has
// samples that were flushed before the crash. relieve flushes rows concurrently with the replay. The replay waits only while
// the head is so large that the server would refuse writes. Other flushes can wait until the server is ready.
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
			continue // samples applied meanwhile may need another flush
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

// awaitRelief waits for the running flush.
func (p *replay) awaitRelief() (rows int, err error) {
	r := p.relief
	<-r.done
	r.cancel()
	p.relief = nil
	return r.rows, r.err
}

// endRelief cancels the running flush. Unwritten rows stay in the head.
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
