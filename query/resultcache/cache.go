package resultcache

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
	"halite/query/expression"
	"halite/query/read/rollups"
	"halite/storage/principal"
)

// Changes reports changes of samples. It reports a write after readers can see the samples and before the write is
// acknowledged. So cached results are exact.
type Changes interface {
	// Generation is a number that grows with every change.
	Generation() uint64
	// ChangedSince reports whether samples with mintMs ≤ time ≤ maxtMs may have been added, replaced or deleted since the
	// generation. If so, it returns the first and the last time of such samples.
	ChangedSince(generation uint64, mintMs, maxtMs int64) (fromMs, toMs int64, changed bool)
}

const (
	// shapesMax and shapesBytesMax bound the expressions whose analysis is cached.
	shapesMax      = 4096
	shapesBytesMax = 4 << 20
	// entryShareMax is the part of the cache that one result may use.
	entryShareMax = 8
	// keepMax bounds an entry that grows: it keeps at most this multiple of the requested steps.
	keepMax = 2
)

// Cache keeps results of queries.
//
// There are two kinds of entries. An entry of a sliding expression (see cacheability) holds consecutive steps. A query may
// use any part of it, and the entry grows at its ends. An entry of any other expression serves only the same request.
type Cache struct {
	entries  *fastcache.Cache
	bytesMax int64
	changes  Changes
	recentMs int64
	ages     *keyschema.TierRetention
	// tiersFromMs is the shortest range for which states of hours and days may replace samples.
	tiersFromMs int64
	marginMs    int64 // see Options.Margin
	now         func() time.Time
	metrics     *metrics

	stored func(who *principal.Principal, metric string) []string
	names  func() uint64

	mu         sync.Mutex
	shapes     map[string]*cacheability
	shapeBytes int
}

type metrics struct {
	requests *prometheus.CounterVec
	refusals *prometheus.CounterVec
	steps    *prometheus.CounterVec
}

// Outcomes of a look-up, the values of the label outcome.
const (
	outcomeHit      = "hit"
	outcomePartial  = "partial"
	outcomeMiss     = "miss"
	OutcomeRefused  = "refused"
	OutcomeBypassed = "bypassed"
	OutcomeOff      = "off"
)

// Options configures a result cache.
type Options struct {
	// Changes reports changed samples; without it nothing is cached.
	Changes Changes
	// BytesMax is the memory for results; negative keeps none.
	BytesMax int64
	// Recent is an age. Steps that read younger samples are not cached.
	Recent time.Duration
	// Retention is the retention of samples; nil keeps them forever.
	Retention *keyschema.TierRetention
	// Stored returns all stored names of a metric for a principal, and Names a number that changes with each change of names. Nil
	// means that metrics have no other names than a principal gives them.
	Stored func(who *principal.Principal, metric string) []string
	Names  func() uint64
	// Margin is the minimum time between a query's oldest sample and the end of the retention.
	Margin time.Duration
	// Tiers is set if rollup states may replace samples.
	Tiers      bool
	Now        func() time.Time
	Registerer prometheus.Registerer
}

// New returns nil if nothing can be cached.
func New(o Options) (*Cache, error) {
	if o.Changes == nil || o.BytesMax < 0 {
		return nil, nil
	}
	c := &Cache{
		entries: fastcache.New(int(o.BytesMax)), bytesMax: o.BytesMax, changes: o.Changes,
		recentMs: o.Recent.Milliseconds(), ages: o.Retention, marginMs: o.Margin.Milliseconds(),
		now: o.Now, shapes: map[string]*cacheability{}, metrics: newMetrics(),
	}
	if c.stored, c.names = o.Stored, o.Names; o.Stored == nil || o.Names == nil {
		c.stored, c.names = (*principal.Principal).Stored, func() uint64 { return 0 }
	}
	c.tiersFromMs = math.MaxInt64
	if o.Tiers {
		c.tiersFromMs = rollups.RangeMinMs
	}
	return c, c.register(o.Registerer)
}

func newMetrics() *metrics {
	return &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdb_query_result_cache_requests_total",
			Help: "Queries by the outcome of the result cache.",
		}, []string{"outcome"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdb_query_result_cache_refusals_total",
			Help: "Results that were not cached, or whose parts could not be reused, by reason.",
		}, []string{"reason"}),
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdb_query_result_cache_steps_total",
			Help: "Steps of range queries that went through the result cache, by their source.",
		}, []string{"from"}),
	}
}

func (c *Cache) register(reg prometheus.Registerer) error {
	for _, outcome := range []string{outcomeHit, outcomePartial, outcomeMiss, OutcomeRefused, OutcomeBypassed} {
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

// shape returns the analysis of an expression, and caches it.
func (c *Cache) shape(p parser.Parser, x expression.Expression) (*cacheability, error) {
	c.mu.Lock()
	s := c.shapes[x.Text]
	c.mu.Unlock()
	if s != nil {
		return s, nil
	}
	e, err := x.Expr(p)
	if err != nil {
		return nil, err
	}
	s = cacheabilityOf(e)
	c.remember(x.Text, s)
	return s, nil
}

func (c *Cache) remember(text string, s *cacheability) {
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

// demote records that an expression is not sliding: its evaluation has shown why.
func (c *Cache) demote(text string, s *cacheability, why SkipReason) *cacheability {
	demoted := *s
	demoted.sliding, demoted.WhySliding = false, why
	c.remember(text, &demoted)
	return &demoted
}

// Bypass returns the Lookup of a query that must not use the cache.
func (c *Cache) Bypass(s expression.Expression) *Lookup {
	return &Lookup{cache: c, Expression: s, Outcome: OutcomeBypassed}
}

// Lookup is the state of one query in the cache.
type Lookup struct {
	cache *Cache
	expression.Expression
	lookback       time.Duration
	subqueryStepMs int64 // step of subqueries that name none
	who            *principal.Principal
	names          uint64 // see Options.Names
	Shape          *cacheability
	key            [sha256.Size]byte
	generation     uint64 // before anything was read
	// startMs, stepMs and steps are the grid; an instant query has one step.
	startMs, stepMs int64
	Steps           int
	beforeMs        int64 // reach of a sliding expression
	afterMs         int64
	mintMs, maxtMs  int64 // bounds of all samples that matter
	Outcome         string
	Why             SkipReason
	Parts           []part
	Reused          int // steps taken from the cache
}

// part is a range of the requested steps. Its values are in Matrix if the cache has them; otherwise the caller evaluates it.
type part struct {
	From, To int // steps, to excluded
	Matrix   promql.Matrix
	Cached   bool
}

// Begin makes the Lookup of a query. Only principals that read the same series share results. It fails if the expression does
// not parse.
func (c *Cache) Begin(
	p parser.Parser, s expression.Expression, lookback time.Duration, subqueryStepMs int64, who *principal.Principal,
) (*Lookup, error) {
	sh, err := c.shape(p, s)
	if err != nil {
		return nil, err
	}
	q := &Lookup{
		cache: c, Expression: s, lookback: lookback, subqueryStepMs: subqueryStepMs, who: who, Shape: sh, Steps: 1, stepMs: 1,
	}
	q.startMs = s.Start.UnixMilli()
	if s.IsRange {
		q.stepMs = max(1, s.Step.Milliseconds())
		q.Shape = sh.at(q.stepMs, c.tiersFromMs)
		q.Steps = int((s.End.UnixMilli()-q.startMs)/q.stepMs) + 1
	}
	if q.Why = q.prepare(p); q.Why != SkipNone {
		q.Outcome = OutcomeRefused
		return q, nil
	}
	q.names = c.names()
	q.makeKey()
	q.generation = c.changes.Generation()
	return q, nil
}

func (q *Lookup) At(step int) int64 { return q.startMs + int64(step)*q.stepMs }

func (q *Lookup) lastMs() int64 { return q.At(q.Steps - 1) }

// sliding reports whether other queries may use parts of the result. Instant queries have no parts.
func (q *Lookup) sliding() bool { return q.Shape != nil && q.Shape.sliding && q.IsRange }

// prepare finds the bounds of the samples that matter. If the cache refuses the query before its evaluation, it returns the
// reason.
func (q *Lookup) prepare(p parser.Parser) SkipReason {
	switch {
	case !q.Shape.known:
		return refusedFunction
	case q.Shape.kind != parser.ValueTypeVector, len(q.Shape.extents) == 0:
		return refusedKind
	case overflows(q.startMs), overflows(q.End.UnixMilli()), q.IsRange && q.Step%time.Millisecond != 0,
		q.lookback < time.Millisecond:
		return refusedTime
	}
	switch {
	case q.sliding():
		q.beforeMs, q.afterMs = q.Shape.reach(q.lookback)
		q.mintMs, q.maxtMs = q.startMs-q.beforeMs, q.lastMs()+q.afterMs
	case !q.Shape.computed:
		before, after := q.Shape.reach(q.lookback)
		q.mintMs, q.maxtMs = q.startMs-before, q.End.UnixMilli()+after
	default:
		// Preprocessing changes the expression.
		e, err := p.ParseExpr(q.Text)
		if err != nil {
			return refusedFunction
		}
		if e, err = promql.PreprocessExpr(e, q.Start, q.End, q.Step); err != nil {
			return refusedFunction
		}
		q.mintMs, q.maxtMs = Bounds(e, q.startMs, q.End.UnixMilli(), q.lookback)
	}
	nowMs := q.cache.now().UnixMilli()
	if r := q.retention(); r > 0 && q.mintMs < nowMs-r.Milliseconds()+q.cache.marginMs {
		return refusedRetention
	}
	return SkipNone
}

// retention is the shortest retention of the metrics that the query may read.
func (q *Lookup) retention() time.Duration {
	ages := q.cache.ages.Snapshot()
	if q.Shape.unnamed {
		return time.Duration(ages.Shortest())
	}
	shortest := ages.Longest()
	for _, name := range q.Shape.metrics {
		for _, metric := range q.cache.stored(q.who, name) {
			if age := ages.ForMetric(metric); shortest.Outlives(age) {
				shortest = age
			}
		}
	}
	return time.Duration(shortest)
}

// makeKey makes the key of the entry from everything but samples that affects the result.
func (q *Lookup) makeKey() {
	b := make([]byte, 0, len(q.Text)+64)
	kind := byte('i')
	switch {
	case q.sliding():
		kind = 's'
	case q.IsRange:
		kind = 'r'
	}
	b = append(b, kind)
	b = binary.LittleEndian.AppendUint64(b, uint64(q.lookback.Milliseconds()))
	b = binary.LittleEndian.AppendUint64(b, uint64(q.subqueryStepMs))
	b = binary.LittleEndian.AppendUint64(b, uint64(q.stepMs))
	b = binary.LittleEndian.AppendUint64(b, uint64(q.startMs%q.stepMs))
	if kind != 's' {
		b = binary.LittleEndian.AppendUint64(b, uint64(q.startMs))
		b = binary.LittleEndian.AppendUint64(b, uint64(q.End.UnixMilli()))
	}
	b = binary.LittleEndian.AppendUint64(b, q.names)
	restriction := q.who.CacheKey()
	b = binary.LittleEndian.AppendUint64(b, uint64(len(restriction)))
	b = append(b, restriction...)
	b = append(b, q.Text...)
	q.key = sha256.Sum256(b)
}
