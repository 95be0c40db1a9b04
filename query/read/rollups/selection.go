package rollups

import (
	"context"
	"slices"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/query/read"
	"halite/rollup"
	"halite/storage/index"
)

// Span is the joined state of adjacent hours or days of a series, all in one interval of the plan.
type Span struct {
	rollup.State
	Interval int
}

// spanBytes is the memory of a Span.
const spanBytes = int64(unsafe.Sizeof(Span{}))

// Selection is the series of a selector. Its plan decides where states are read. It belongs to one goroutine.
type Selection struct {
	*read.Selection
	plan    *Plan
	session *Session
	size    int          // series of a batch
	spans   int          // upper bound for one series
	caching *cacheLayout // nil if states are not cached
	use     Use
}

// Batch holds the states of adjacent series, and the samples that no state replaces.
type Batch struct {
	*read.Batch
	// Spans holds the spans of each column, ascending. No sample of the column is in a span.
	Spans [][]Span
	// Incomplete marks columns that lack samples, because most of their states are unknown. Selection.Rows reads such a series.
	Incomplete []bool

	session  *Session
	reserved int64
	slab     *[]Span // memory of the spans
}

// Release ends the use of the batch.
func (b *Batch) Release() {
	b.session.read.Budget().Release(b.reserved)
	b.session.reader.spans.Put(b.slab)
	b.reserved, b.Spans, b.slab = 0, nil, nil
	b.Batch.Release()
}

const (
	// rowsMax bounds the rows that a batch plans to read in addition to states, and the rows of one series.
	rowsMax = 8192
	// spansMax is the number of spans of a batch.
	spansMax = 1 << 16
	// seriesMax is the number of series of a batch.
	seriesMax = 1024
)

// Select finds the series that match and have samples or states within the bounds of the plan's windows.
func (s *Session) Select(ctx context.Context, p *Plan, matchers ...*labels.Matcher) (*Selection, error) {
	sel, err := s.read.SelectHours(ctx, p.clip, p.hours, p.Steps, matchers...)
	if err != nil {
		return nil, err
	}
	t := &Selection{Selection: sel, plan: p, session: s, use: Use{Reason: p.Reason}}
	t.spans = min(len(p.Bounds), len(p.days)*keyschema.DayHours) + p.rows + 1
	t.size = max(1, min(seriesMax, rowsMax/(p.rows+1), spansMax/t.spans))
	sel.UseCache(p.rows * sel.Len())
	t.caching = newCacheLayout(s.reader.opts.Cache, p, sel.Len())
	return t, nil
}

// Batches returns the number of batches.
func (t *Selection) Batches() int { return (t.Len() + t.size - 1) / t.size }

// Use describes the reads until now.
func (t *Selection) Use() Use { return t.use }

// Rows returns the selection of series i alone, to read all its samples. The caller closes it.
func (t *Selection) Rows(i int) (*read.Selection, error) {
	t.use.Fallbacks++
	return t.Only(i, t.plan.Sparse())
}

// ReadBatch reads batch i: the head, then states, then the rows of hours that states do not cover.
func (t *Selection) ReadBatch(ctx context.Context, i int) (*Batch, error) {
	first, end := i*t.size, min((i+1)*t.size, t.Len())
	rd, err := t.ReadHead(ctx, first, end)
	if err != nil {
		return nil, err
	}
	defer rd.Close()
	cached := t.caching.snapshot(t.session.reader.opts.Store, t.plan)
	if !rd.Unchanged() {
		cached = nil // cached states may reflect later deletions
	}
	sr := newStateReader(t.session, rd, t.plan, cached, t.spans)
	if err := sr.read(ctx); err != nil {
		return nil, read.Classify("read rollups", err)
	}
	out := &Batch{Incomplete: make([]bool, len(rd.Series())), session: t.session, slab: sr.slab}
	batch, err := t.readOpen(ctx, rd, sr.openHours(out.Incomplete))
	if err != nil {
		return nil, err
	}
	out.Batch = batch
	if out.Spans, out.reserved, err = sr.spans(); err != nil {
		batch.Release()
		return nil, err
	}
	out.fold(rd.Owners())
	t.use.Days += sr.days.Load()
	t.use.Hours += sr.hours.Load()
	t.use.Retired = max(t.use.Retired, Resolution(sr.retired.Load()))
	return out, nil
}

// fold joins the spans of the parts of each series. owners is nil if no series has parts.
func (b *Batch) fold(owners []int) {
	if owners == nil {
		return
	}
	spans, incomplete := make([][]Span, len(b.Columns)), make([]bool, len(b.Columns))
	for i, owner := range owners {
		incomplete[owner] = incomplete[owner] || b.Incomplete[i]
		if spans[owner] == nil {
			spans[owner] = b.Spans[i]
			continue
		}
		spans[owner] = slices.Concat(spans[owner], b.Spans[i])
		slices.SortStableFunc(spans[owner], bySpanTime)
	}
	b.Spans, b.Incomplete = spans, incomplete
}

// readOpen reads the rows of hours that states do not cover, and joins them with the head.
func (t *Selection) readOpen(ctx context.Context, rd *read.BatchReader, series []index.Series) (*read.Batch, error) {
	before := t.session.read.Figures()
	batch, err := rd.ReadRows(ctx, series)
	after := t.session.read.Figures()
	t.use.Rows += after.Rows + after.RowsCached - before.Rows - before.RowsCached
	t.use.Samples += after.Samples - before.Samples + int64(rd.HeadSamples())
	return batch, err
}
