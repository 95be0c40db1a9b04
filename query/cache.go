package query

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/VictoriaMetrics/fastcache"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"halite/keyschema"
	"halite/query/read/rollups"
)

// Changes tells when samples have changed: what a result cache needs to be exact. A write is told of after readers can
// see it and before it is acknowledged.
type Changes interface {
	// Generation is a number that grows with every change.
	Generation() uint64
	// ChangedSince reports whether samples with mintMs ≤ time ≤ maxtMs may have been added, replaced or deleted since
	// the generation, and the times between which that happened.
	ChangedSince(generation uint64, mintMs, maxtMs int64) (fromMs, toMs int64, changed bool)
}

const (
	// shapesMax and shapesBytesMax bound the expressions whose analysis is remembered.
	shapesMax      = 4096
	shapesBytesMax = 4 << 20
	// entryShareMax is the part of the cache that one result may take.
	entryShareMax = 8
	// keepMax times as many steps as were asked for are kept of a result that grows.
	keepMax = 2
)

// resultCache keeps results of queries. An entry is used only for steps around which no sample has changed since, so
// that an answer from the cache is the one that an evaluation would give.
//
// There are two kinds of entries. Those of sliding expressions (see shape) hold a stretch of steps, of which any part
// is used and which grows at its ends. Those of all other expressions answer only exactly the same question.
type resultCache struct {
	entries   *fastcache.Cache
	bytesMax  int64
	changes   Changes
	recentMs  int64
	retention time.Duration
	ages      *keyschema.TierRetention
	// tiersFromMs is the range from which states of hours and days may stand for samples.
	tiersFromMs int64
	marginMs    int64 // by which a query must stay clear of the retention
	now         func() time.Time
	metrics     *cacheMetrics

	mu         sync.Mutex
	shapes     map[string]*shape
	shapeBytes int
}

type cacheMetrics struct {
	requests *prometheus.CounterVec
	refusals *prometheus.CounterVec
	steps    *prometheus.CounterVec
}

// Outcomes of a look-up, the values of the label outcome.
const (
	cacheHit      = "hit"
	cachePartial  = "partial"
	cacheMiss     = "miss"
	cacheRefused  = "refused"
	cacheBypassed = "bypassed"
	cacheOff      = "off"
)

func newResultCache(o Options) (*resultCache, error) {
	if o.Changes == nil || o.ResultCacheBytes < 0 {
		return nil, nil
	}
	c := &resultCache{
		entries: fastcache.New(int(o.ResultCacheBytes)), bytesMax: o.ResultCacheBytes, changes: o.Changes,
		recentMs: o.ResultCacheRecent.Milliseconds(), retention: o.Retention, ages: o.Ages, marginMs: o.Timeout.Milliseconds(),
		now: o.Now, shapes: map[string]*shape{}, metrics: newCacheMetrics(),
	}
	c.tiersFromMs = math.MaxInt64
	if o.Tiers != Off {
		c.tiersFromMs = rollups.RangeMinMs
	}
	return c, c.register(o.Registerer)
}

func newCacheMetrics() *cacheMetrics {
	return &cacheMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdb_query_result_cache_requests_total",
			Help: "Queries by what the result cache did for them.",
		}, []string{"outcome"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdb_query_result_cache_refusals_total",
			Help: "Results, or reuses of parts of them, that were not kept, by reason.",
		}, []string{"reason"}),
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdb_query_result_cache_steps_total",
			Help: "Steps of range queries that went through the result cache, by where they came from.",
		}, []string{"from"}),
	}
}

func (c *resultCache) register(reg prometheus.Registerer) error {
	for _, outcome := range []string{cacheHit, cachePartial, cacheMiss, cacheRefused, cacheBypassed} {
		c.metrics.requests.WithLabelValues(outcome)
	}
	if reg == nil {
		return nil
	}
	for _, m := range []prometheus.Collector{
		c.metrics.requests, c.metrics.refusals, c.metrics.steps,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tsdb_query_result_cache_bytes", Help: "Memory of the result cache in use.",
		}, func() float64 {
			var s fastcache.Stats
			c.entries.UpdateStats(&s)
			return float64(s.BytesSize)
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tsdb_query_result_cache_bytes_max", Help: "Memory that the result cache may use.",
		}, func() float64 { return float64(c.bytesMax) }),
	} {
		if err := reg.Register(m); err != nil {
			return fmt.Errorf("register result cache metrics: %w", err)
		}
	}
	return nil
}

// shape analyses an expression, or remembers it.
func (c *resultCache) shape(p parser.Parser, of span) (*shape, error) {
	c.mu.Lock()
	s := c.shapes[of.text]
	c.mu.Unlock()
	if s != nil {
		return s, nil
	}
	e, err := of.look(p)
	if err != nil {
		return nil, err
	}
	s = shapeOf(e)
	c.remember(of.text, s)
	return s, nil
}

func (c *resultCache) remember(text string, s *shape) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.shapes) >= shapesMax || c.shapeBytes+len(text) > shapesBytesMax {
		clear(c.shapes)
		c.shapeBytes = 0
	}
	if _, known := c.shapes[text]; !known {
		c.shapeBytes += len(text)
	}
	c.shapes[text] = s
}

// demote notes that an expression is not sliding after all, as its evaluation has shown.
func (c *resultCache) demote(text string, s *shape, why refusal) *shape {
	demoted := *s
	demoted.sliding, demoted.whySliding = false, why
	c.remember(text, &demoted)
	return &demoted
}

// bypass is the inquiry of a query that does not want the cache.
func (c *resultCache) bypass(s span) *inquiry {
	return &inquiry{cache: c, span: s, outcome: cacheBypassed}
}

// inquiry is a query on its way through the cache.
type inquiry struct {
	cache *resultCache
	span
	lookback   time.Duration
	shape      *shape
	key        [sha256.Size]byte
	generation uint64 // before anything was read
	// startMs, stepMs and steps are the grid; an instant query has one step.
	startMs, stepMs int64
	steps           int
	beforeMs        int64 // reach of a sliding expression
	afterMs         int64
	mintMs, maxtMs  int64 // bounds of all samples that matter
	outcome         string
	why             refusal
	parts           []part
	reused          int // steps taken from the cache
}

// part is a stretch of the steps asked for, either from the cache or, if matrix is nil, to be evaluated.
type part struct {
	from, to int // steps, to excluded
	matrix   promql.Matrix
	cached   bool
}

// inquire prepares the use of the cache for a query; nil if it cannot be used at all.
func (c *resultCache) inquire(p parser.Parser, s span, lookback time.Duration) (*inquiry, error) {
	sh, err := c.shape(p, s)
	if err != nil {
		return nil, err
	}
	q := &inquiry{cache: c, span: s, lookback: lookback, shape: sh, steps: 1, stepMs: 1}
	q.startMs = s.start.UnixMilli()
	if s.isRange {
		q.stepMs = max(1, s.step.Milliseconds())
		q.shape = sh.at(q.stepMs, c.tiersFromMs)
		q.steps = int((s.end.UnixMilli()-q.startMs)/q.stepMs) + 1
	}
	if q.why = q.refuse(p); q.why != refusedNone {
		q.outcome = cacheRefused
		return q, nil
	}
	q.makeKey()
	q.generation = c.changes.Generation()
	return q, nil
}

func (q *inquiry) at(step int) int64 { return q.startMs + int64(step)*q.stepMs }

func (q *inquiry) lastMs() int64 { return q.at(q.steps - 1) }

// sliding reports whether parts of the result may be used: of a range query only.
func (q *inquiry) sliding() bool { return q.shape != nil && q.shape.sliding && q.isRange }

// refuse checks what can be checked before the evaluation, and finds the bounds of the samples that matter.
func (q *inquiry) refuse(p parser.Parser) refusal {
	switch {
	case !q.shape.known:
		return refusedFunction
	case q.shape.kind != parser.ValueTypeVector:
		return refusedKind
	case overflows(q.startMs), overflows(q.end.UnixMilli()), q.isRange && q.step%time.Millisecond != 0,
		q.lookback < time.Millisecond:
		return refusedTime
	}
	switch {
	case q.sliding():
		q.beforeMs, q.afterMs, _ = q.shape.reach(q.lookback)
		q.mintMs, q.maxtMs = q.startMs-q.beforeMs, q.lastMs()+q.afterMs
	case !q.shape.computed:
		if before, after, ok := q.shape.reach(q.lookback); ok {
			q.mintMs, q.maxtMs = q.startMs-before, q.end.UnixMilli()+after
		}
	default:
		// Preprocessing changes the expression.
		e, err := p.ParseExpr(q.text)
		if err != nil {
			return refusedFunction
		}
		if e, err = promql.PreprocessExpr(e, q.start, q.end, q.step); err != nil {
			return refusedFunction
		}
		q.mintMs, q.maxtMs = bounds(e, q.startMs, q.end.UnixMilli(), q.lookback)
	}
	nowMs := q.cache.now().UnixMilli()
	if r := q.retention(); r > 0 && q.mintMs < nowMs-r.Milliseconds()+q.cache.marginMs {
		return refusedRetention
	}
	return refusedNone
}

// retention is how long all metrics are kept that the query may read.
func (q *inquiry) retention() time.Duration {
	if q.cache.ages == nil {
		return q.cache.retention
	}
	if q.shape.unnamed {
		return time.Duration(q.cache.ages.Shortest())
	}
	shortest := q.cache.ages.Longest()
	for _, metric := range q.shape.metrics {
		if age := q.cache.ages.Of(metric); shortest.Outlives(age) {
			shortest = age
		}
	}
	return time.Duration(shortest)
}

// makeKey names the entry: all that the result depends on but samples.
func (q *inquiry) makeKey() {
	b := make([]byte, 0, len(q.text)+64)
	kind := byte('i')
	switch {
	case q.sliding():
		kind = 's'
	case q.isRange:
		kind = 'r'
	}
	b = append(b, kind)
	b = binary.LittleEndian.AppendUint64(b, uint64(q.lookback.Milliseconds()))
	b = binary.LittleEndian.AppendUint64(b, uint64(q.stepMs))
	b = binary.LittleEndian.AppendUint64(b, uint64(q.startMs%q.stepMs))
	if kind != 's' {
		b = binary.LittleEndian.AppendUint64(b, uint64(q.startMs))
		b = binary.LittleEndian.AppendUint64(b, uint64(q.end.UnixMilli()))
	}
	b = append(b, q.text...)
	q.key = sha256.Sum256(b)
}
