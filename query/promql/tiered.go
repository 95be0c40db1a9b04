package promql

import (
	"context"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/rollup"
	"halite/storage/index"
)

// Span is a state of neighbouring hours or days of a series, all in one atom of the plan.
type Span struct {
	rollup.State
	Atom int
}

// spanBytes is the memory of a Span.
const spanBytes = int64(unsafe.Sizeof(Span{}))

// TieredSelection is the series of a selector, to be read from states where the plan says so. It belongs to one
// goroutine.
type TieredSelection struct {
	*Selection
	plan    *TierPlan
	session *Session
	size    int         // series of a batch
	spans   int         // that a series is expected to have, at most
	keeping *keptLayout // nil if states are not to be kept
	use     TierUse
}

// TieredBatch is what was read of neighbouring series: the states, and the samples that no state stands for.
type TieredBatch struct {
	*Batch
	// Spans are those of each column, ascending. No sample of the column lies in one.
	Spans [][]Span
	// Incomplete columns, where most states turned out to be unknown, lack samples; see TieredSelection.Rows.
	Incomplete []bool

	charged int64
	slab    *[]Span // that spans lie in
}

// Release ends the use of the batch.
func (b *TieredBatch) Release() {
	b.reader.budget.Release(b.charged)
	b.reader.spans.Put(b.slab)
	b.charged, b.Spans, b.slab = 0, nil, nil
	b.Batch.Release()
}

// TierUse says how a selector was answered.
type TierUse struct {
	Selector, Reason string
	// Days and Hours are states used, where a day of hours that were joined before counts as 24 of these, Rows the rows read
	// beside them, Samples those in them and of the head.
	Days, Hours, Rows, Samples int64
	// Fallbacks are series of which all samples had to be read.
	Fallbacks int64
	// Retired is the finest that there is of the oldest samples used that are retired; OfSamples if none are.
	Retired Resolution
}

// Tier names what was read: raw, hours, days, or hours and days.
func (u *TierUse) Tier() string {
	switch {
	case u.Days > 0 && u.Hours > 0:
		return "hours and days"
	case u.Days > 0:
		return "days"
	case u.Hours > 0:
		return "hours"
	}
	return "raw"
}

// Resolution is how fine an answer is.
type Resolution uint8

// From fine to coarse.
const (
	OfSamples Resolution = iota
	OfHours
	OfDays
)

// tierUses gathers those of a session.
type tierUses struct {
	mu  sync.Mutex
	all []TierUse
}

// NoteTiers notes how a selector was answered.
func (s *Session) NoteTiers(u TierUse) {
	s.tierUses.mu.Lock()
	defer s.tierUses.mu.Unlock()
	s.tierUses.all = append(s.tierUses.all, u)
}

// TierUses lists what was noted.
func (s *Session) TierUses() []TierUse {
	s.tierUses.mu.Lock()
	defer s.tierUses.mu.Unlock()
	return slices.Clone(s.tierUses.all)
}

const (
	// tieredRowsMax is the number of rows that a batch is planned to read beside states, and that one series may have.
	tieredRowsMax = 8192
	// tieredSpansMax is the number of spans of a batch.
	tieredSpansMax = 1 << 16
	// tieredSeriesMax is the number of series of a batch.
	tieredSeriesMax = 1024
)

// SelectTiered finds the series that match and have samples or states in the hull of the plan's windows.
func (s *Session) SelectTiered(
	ctx context.Context, p *TierPlan, matchers ...*labels.Matcher,
) (*TieredSelection, error) {
	r := &reader{
		Queryable: s.queryable, window: p.clip, budget: s.budget, figures: &s.figures, steps: p.Steps, needed: p.hours,
	}
	sel, err := r.selection(ctx, nil, matchers)
	if err != nil {
		return nil, err
	}
	s.figures.series.Add(int64(sel.Len()))
	t := &TieredSelection{Selection: sel, plan: p, session: s, use: TierUse{Reason: p.Reason}}
	t.spans = min(len(p.Bounds), len(p.days)*keyschema.DayHours) + p.rows + 1
	t.size = max(1, min(tieredSeriesMax, tieredRowsMax/(p.rows+1), tieredSpansMax/t.spans))
	sel.cache = nil
	if r.cache.admits(p.rows * sel.Len()) {
		sel.cache = r.cache
	}
	t.keeping = newKeptLayout(r.cache, p, sel.Len())
	return t, nil
}

// Batches is the number of batches.
func (t *TieredSelection) Batches() int { return (t.Len() + t.size - 1) / t.size }

// Use says what was read so far.
func (t *TieredSelection) Use() TierUse { return t.use }

// Rows is the selection of series i alone, of which all samples are to be read. Close it when done.
func (t *TieredSelection) Rows(i int) (*Selection, error) {
	t.use.Fallbacks++
	r := *t.reader
	r.nowMs = r.opts.Now().UnixMilli() // samples are hidden by the age of their metric, states are by those of tiers
	if r.window = r.clip(r.window); !t.plan.sparse() {
		r.needed = nil
	}
	s := &Selection{reader: &r, window: r.window, epoch: t.epoch}
	if r.window.empty() {
		return s, nil
	}
	series := t.series[i]
	series.Hours = clipHours(series.Hours, r.window)
	return s, s.hold([]index.Series{series})
}

// ReadTiered reads batch i: the head, then states, then the rows of what these leave open.
func (t *TieredSelection) ReadTiered(ctx context.Context, i int) (*TieredBatch, error) {
	first, end := i*t.size, min((i+1)*t.size, t.Len())
	rd := &batchReader{
		reader: t.reader, window: t.window, first: first, series: t.series[first:end], cache: t.cache, epoch: t.epoch,
	}
	if err := rd.readHead(ctx); err != nil {
		rd.close()
		return nil, err
	}
	defer rd.close()
	kept := t.keeping.asOfNow(rd.opts.Tiers, t.plan)
	if !rd.deletions.current() {
		kept = nil // they are as of later deletions
	}
	sr := newStateReader(rd, t.plan, kept, t.spans)
	if err := sr.read(rd.deletions.context(ctx)); err != nil {
		return nil, storageError("read rollups", err)
	}
	out := &TieredBatch{Incomplete: make([]bool, len(rd.series)), slab: sr.slab}
	series := sr.openHours(out.Incomplete)
	batch, err := t.readOpen(ctx, rd, series)
	if err != nil {
		return nil, err
	}
	out.Batch = batch
	if out.Spans, out.charged, err = sr.spans(); err != nil {
		batch.Release()
		return nil, err
	}
	t.use.Days += sr.days.Load()
	t.use.Hours += sr.hours.Load()
	t.use.Retired = max(t.use.Retired, Resolution(sr.retired.Load()))
	return out, nil
}

// readOpen reads the rows of hours that states leave open, and joins them with the head.
func (t *TieredSelection) readOpen(ctx context.Context, rd *batchReader, series []index.Series) (*Batch, error) {
	before := t.session.Figures()
	r := *t.reader
	r.nowMs = r.opts.Now().UnixMilli() // samples are hidden by the age of their metric, states are by those of tiers
	r.window = r.clip(r.window)
	rows := &batchReader{
		reader: &r, window: window{max(rd.window.mintMs, r.window.mintMs), rd.window.maxtMs}, first: rd.first, series: series,
		head: rd.head, headEnds: rd.headEnds, cache: rd.cache, epoch: rd.epoch, deletions: rd.deletions,
	}
	p := &piece{batchReader: rows, window: rows.window}
	defer p.close()
	defer func() {
		after := t.session.Figures()
		t.use.Rows += after.Rows + after.RowsCached - before.Rows - before.RowsCached
		t.use.Samples += after.Samples - before.Samples + int64(rd.head.len())
	}()
	if err := p.readTable(ctx); err != nil {
		return nil, err
	}
	return p.join()
}

// Retirement is the warning that an answer comes from states because samples are retired.
type Retirement struct {
	Resolution Resolution
	BeforeMs   int64
}

func (r *Retirement) Error() string {
	states := "hourly"
	if r.Resolution == OfDays {
		states = "daily"
	}
	return "answered from " + states + " states: raw samples before " +
		time.UnixMilli(r.BeforeMs).UTC().Format(time.RFC3339) + " are retired"
}
