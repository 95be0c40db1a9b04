package promql

import (
	"context"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"

	"halite/keyschema"
	"halite/storage/index"
)

// Queryable answers selectors from the head and the data table.
type Queryable struct {
	opts    Options
	metrics *metrics
	heads   bufferPool // for what is read of the head
	buffers bufferPool // for all other columns
	pools   scratchPool
	cache   *rowCache // nil if there is none
	spans   sync.Pool // of *[]Span
	pool    *pool
}

var _ promstorage.SampleAndChunkQueryable = (*Queryable)(nil)

// New makes a Queryable.
func New(opts Options) (*Queryable, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	pool := &pool{bytesMax: opts.TotalBytesMax}
	m, err := newMetrics(opts.Registerer, pool)
	if err != nil {
		return nil, err
	}
	cache, err := newRowCache(&opts)
	if err != nil {
		return nil, err
	}
	return &Queryable{opts: opts, metrics: m, cache: cache, pool: pool}, nil
}

// Querier reads samples with mintMs ≤ time ≤ maxtMs. All that it holds at once counts against one budget.
func (q *Queryable) Querier(mintMs, maxtMs int64) (promstorage.Querier, error) {
	return &querier{reader: q.newReader(mintMs, maxtMs)}, nil
}

// ChunkQuerier is Querier for those who want XOR chunks.
func (q *Queryable) ChunkQuerier(mintMs, maxtMs int64) (promstorage.ChunkQuerier, error) {
	return &chunkQuerier{reader: q.newReader(mintMs, maxtMs)}, nil
}

// estimatingCatalogue is a Catalogue that can estimate a selection, see [index.Index.Estimate].
type estimatingCatalogue interface {
	Estimate(ctx context.Context, matchers ...*labels.Matcher) (int, error)
}

// EstimateSeries returns how many active series the matchers select at most, or 0 if the catalogue cannot tell.
func (q *Queryable) EstimateSeries(ctx context.Context, matchers ...*labels.Matcher) int {
	c, ok := q.opts.Catalogue.(estimatingCatalogue)
	if !ok {
		return 0
	}
	n, err := c.Estimate(ctx, matchers...)
	if err != nil {
		return 0 // Only the end of ctx stops an estimate, and that ends the query.
	}
	return n
}

// Budget is for one query or look-up: it counts against what all may hold together. End it.
func (q *Queryable) Budget() *Budget { return newBudget(&q.opts, q.pool) }

// Under is the Queryable of a query that has a budget: its queriers count against that, and do not end it.
func (q *Queryable) Under(b *Budget) promstorage.SampleAndChunkQueryable { return &budgeted{q, b} }

// budgeted is a Queryable whose queriers share a budget.
type budgeted struct {
	*Queryable
	budget *Budget
}

// Querier implements promstorage.Queryable.
func (q *budgeted) Querier(mintMs, maxtMs int64) (promstorage.Querier, error) {
	return &querier{reader: q.newReaderOf(q.budget, mintMs, maxtMs), shared: true}, nil
}

// ChunkQuerier implements promstorage.ChunkQueryable.
func (q *budgeted) ChunkQuerier(mintMs, maxtMs int64) (promstorage.ChunkQuerier, error) {
	return &chunkQuerier{reader: q.newReaderOf(q.budget, mintMs, maxtMs), shared: true}, nil
}

// window is a span of time in milliseconds, both ends inclusive; it is empty when mint > maxt.
type window struct{ mintMs, maxtMs int64 }

func (w window) empty() bool { return w.mintMs > w.maxtMs }

// clip narrows a window to times that can have samples: within retention and representable in a row key.
func (q *Queryable) clip(w window) window {
	oldest := int64(0)
	if q.opts.Retention > 0 {
		oldest = max(oldest, q.opts.Now().Add(-q.opts.Retention).UnixMilli())
	}
	return window{max(w.mintMs, oldest), min(w.maxtMs, keyschema.HourCellMs(keyschema.HourMax))}
}

// Select finds the series that match and have samples in the window, without reading samples yet. Hints may be nil;
// of them Start, End, Limit and the shard are used. Close the Selection when done.
func (q *Queryable) Select(
	ctx context.Context, mintMs, maxtMs int64, hints *promstorage.SelectHints, matchers ...*labels.Matcher,
) (*Selection, error) {
	r := q.newReader(mintMs, maxtMs)
	s, err := r.selection(ctx, hints, matchers)
	if err != nil {
		r.budget.End()
		return nil, err
	}
	s.alone = true
	return s, nil
}

// reader is what the selectors of one query share.
type reader struct {
	*Queryable
	window  window
	budget  *Budget
	figures *figures
	nowMs   int64 // when it began
	// needed are the only hours to read; nil means all of the window.
	needed []index.HourSpan
	// partners are series to join with, without which series may be left out; nil if none may.
	partners *index.Partners
	// steps is the number of values that a series is evaluated to; 0 if series are read one after the other.
	steps int
	// lends says that columns may be without TsMs, and that what was asked for together is kept so.
	lends bool
	// latest says that of each column little but the last sample is looked at.
	latest bool
	// part says that of the labels only those of the names are needed.
	part  bool
	names []string
}

func (q *Queryable) newReader(mintMs, maxtMs int64) *reader {
	return q.newReaderOf(q.Budget(), mintMs, maxtMs)
}

func (q *Queryable) newReaderOf(b *Budget, mintMs, maxtMs int64) *reader {
	return &reader{
		Queryable: q,
		window:    q.clip(window{mintMs, maxtMs}),
		budget:    b,
		figures:   new(figures),
		nowMs:     q.opts.Now().UnixMilli(),
	}
}

// selection asks the catalogue and cuts its answer into batches.
func (r *reader) selection(
	ctx context.Context, hints *promstorage.SelectHints, matchers []*labels.Matcher,
) (*Selection, error) {
	w := r.window
	if hints != nil {
		w = window{max(w.mintMs, hints.Start), min(w.maxtMs, hints.End)}
	}
	s := &Selection{reader: r, window: w}
	if w.empty() {
		return s, nil
	}
	if r.cache != nil {
		s.epoch = r.cache.watch.hours.Latest()
	}
	metered, done := r.budget.Metered(ctx)
	defer done()
	series, err := r.find(metered, s, matchers)
	if err != nil {
		return nil, storageError("select series", err)
	}
	series = r.kept(w, series)
	if r.needed != nil {
		series = thin(series, r.needed)
	}
	if s.left == 0 && (hints == nil || hints.ShardCount < 2) {
		s.condition = newCondition(matchers)
	}
	if hints != nil {
		series = shard(series, hints.ShardIndex, hints.ShardCount)
		if hints.Limit > 0 && hints.Limit < len(series) {
			series = series[:hints.Limit]
		}
	}
	if err := s.hold(series); err != nil {
		return nil, err
	}
	r.metrics.series.Add(float64(len(series)))
	return s, nil
}

// partnerCatalogue is a Catalogue that can leave out series without partners, see [index.Index.SelectPartners].
type partnerCatalogue interface {
	SelectPartners(ctx context.Context, p *index.Partners, mintMs, maxtMs int64, matchers ...*labels.Matcher,
	) (found []index.Series, left int, err error)
}

// partCatalogue is a Catalogue that need not make all labels of a series, see [index.Index.SelectPart].
type partCatalogue interface {
	SelectPart(ctx context.Context, names []string, mintMs, maxtMs int64, matchers ...*labels.Matcher) ([]index.Series, error)
}

// find asks the catalogue for the series of a selection.
func (r *reader) find(ctx context.Context, s *Selection, matchers []*labels.Matcher) (found []index.Series, err error) {
	if c, ok := r.opts.Catalogue.(partnerCatalogue); ok && r.partners != nil {
		found, s.left, err = c.SelectPartners(ctx, r.partners, s.window.mintMs, s.window.maxtMs, matchers...)
		return found, err
	}
	if c, ok := r.opts.Catalogue.(partCatalogue); ok && r.part {
		return c.SelectPart(ctx, r.names, s.window.mintMs, s.window.maxtMs, matchers...)
	}
	return r.opts.Catalogue.Select(ctx, s.window.mintMs, s.window.maxtMs, matchers...)
}
