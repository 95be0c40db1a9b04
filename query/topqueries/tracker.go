package topqueries

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/zeebo/xxh3"
)

// Options configures a Tracker. A zero field means its documented default.
type Options struct {
	// QueriesMax bounds the queries in the list; 1000.
	QueriesMax int
	// TextBytesMax bounds the stored text of a query; 2048.
	TextBytesMax int

	Registerer prometheus.Registerer // not registered
}

// Validate lists all faults.
func (o Options) Validate() error {
	var errs []error
	if o.QueriesMax < 0 {
		errs = append(errs, fmt.Errorf("top queries: QueriesMax is %d; it must not be negative", o.QueriesMax))
	}
	if o.TextBytesMax < 0 {
		errs = append(errs, fmt.Errorf("top queries: TextBytesMax is %d; it must not be negative", o.TextBytesMax))
	}
	return errors.Join(errs...)
}

// textsPerQuery is the number of texts that the Tracker recognises for each query without parsing them.
const textsPerQuery = 4

// evictedShare sets how many queries a full Tracker evicts at once: 1/evictedShare of them. Sorting for each new query would cost
// too much.
const evictedShare = 10

// Tracker adds up the cost of queries in bounded memory. A nil *Tracker counts nothing. It is safe for concurrent use.
type Tracker struct {
	opts    Options
	evicted prometheus.Counter

	mu      sync.Mutex
	queries map[key]*Query
	// texts maps a text as received to its query, so that only new texts are parsed.
	texts        map[key]*Query
	evictedCount uint64
}

// key identifies a text of a tenant.
type key struct {
	tenant string
	text   xxh3.Uint128
}

// New returns a Tracker without counts.
func New(o Options) (*Tracker, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.QueriesMax, o.TextBytesMax = cmp.Or(o.QueriesMax, 1000), cmp.Or(o.TextBytesMax, 2048)
	return &Tracker{
		opts: o, queries: map[key]*Query{}, texts: map[key]*Query{},
		evicted: promauto.With(o.Registerer).NewCounter(prometheus.CounterOpts{
			Name: "tsdb_query_top_evicted_total",
			Help: "Queries evicted from the list of top queries to make room for others.",
		}),
	}, nil
}

// Run is a query that has ended.
type Run struct {
	// Tenant names the tenants of the sender; "" without tenants.
	Tenant string
	Kind   string // such as "instant" or "range"
	Text   string
	// StartMs, EndMs and StepMs are the requested range.
	StartMs, EndMs, StepMs int64
	Began                  time.Time
	Took                   time.Duration
	Samples                int64
	// PeakBytes is the peak memory of samples and series, 0 if it was not measured.
	PeakBytes int64
	Failed    bool
}

// Slowest is the slowest run of a query.
type Slowest struct {
	TimeMs  int64   `json:"timeMs"`
	Seconds float64 `json:"seconds"`
	StartMs int64   `json:"startMs"`
	EndMs   int64   `json:"endMs"`
	StepMs  int64   `json:"stepMs"`
}

// Query adds up the runs of a query since FirstSeenMs.
type Query struct {
	Tenant string `json:"tenant,omitempty"`
	Kind   string `json:"kind"`
	Query  string `json:"query"`
	// QueryBytes is the length of the whole text if Query is truncated, otherwise 0.
	QueryBytes   int     `json:"queryBytes,omitempty"`
	Fingerprint  string  `json:"fingerprint,omitempty"`
	Count        uint64  `json:"count"`
	Errors       uint64  `json:"errors"`
	TotalSeconds float64 `json:"totalSeconds"`
	MeanSeconds  float64 `json:"meanSeconds"`
	MaxSeconds   float64 `json:"maxSeconds"`
	Samples      int64   `json:"samples"`
	// PeakBytes is the largest memory of a run.
	PeakBytes   int64   `json:"peakBytes"`
	FirstSeenMs int64   `json:"firstSeenMs"`
	LastSeenMs  int64   `json:"lastSeenMs"`
	Slowest     Slowest `json:"slowest"`
}

// Add counts a run. normalise returns the normalised text and its fingerprint, or "" for a text that is not a query. Add does
// not count such a text. Add calls normalise only for texts that it does not know.
func (t *Tracker) Add(r Run, normalise func() (text, fingerprint string)) {
	if t == nil {
		return
	}
	raw := key{r.Tenant, xxh3.HashString128(r.Text)}
	if t.count(raw, r) {
		return
	}
	text, fingerprint := normalise()
	if text == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	normalised := key{r.Tenant, xxh3.HashString128(text)}
	q := t.queries[normalised]
	if q == nil {
		if len(t.queries) >= t.opts.QueriesMax {
			t.evict()
		}
		q = &Query{
			Tenant: r.Tenant, Query: truncate(text, t.opts.TextBytesMax), Fingerprint: fingerprint, FirstSeenMs: r.Began.UnixMilli(),
		}
		if len(q.Query) < len(text) {
			q.QueryBytes = len(text)
		}
		t.queries[normalised] = q
	}
	if len(t.texts) >= textsPerQuery*t.opts.QueriesMax {
		clear(t.texts)
	}
	t.texts[raw] = q
	q.add(r)
}

// count counts a run if its text is known, and reports whether it is.
func (t *Tracker) count(raw key, r Run) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.texts[raw]
	if q != nil {
		q.add(r)
	}
	return q != nil
}

// evict drops the queries with the least total time. It also clears the map of texts, because some texts lead to dropped
// queries.
func (t *Tracker) evict() {
	type candidate struct {
		at      key
		seconds float64
	}
	all := make([]candidate, 0, len(t.queries))
	for k, q := range t.queries {
		all = append(all, candidate{k, q.TotalSeconds})
	}
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Compare(a.seconds, b.seconds) })
	all = all[:max(1, len(all)/evictedShare)]
	for _, c := range all {
		delete(t.queries, c.at)
	}
	clear(t.texts)
	t.evictedCount += uint64(len(all))
	t.evicted.Add(float64(len(all)))
}

func (q *Query) add(r Run) {
	seconds := r.Took.Seconds()
	q.Kind = r.Kind
	q.Count++
	if r.Failed {
		q.Errors++
	}
	q.TotalSeconds += seconds
	q.Samples += r.Samples
	q.PeakBytes = max(q.PeakBytes, r.PeakBytes)
	q.LastSeenMs = max(q.LastSeenMs, r.Began.UnixMilli())
	if q.Count == 1 || seconds > q.MaxSeconds {
		q.MaxSeconds = seconds
		q.Slowest = Slowest{
			TimeMs: r.Began.UnixMilli(), Seconds: seconds, StartMs: r.StartMs, EndMs: r.EndMs, StepMs: r.StepMs,
		}
	}
}

// truncate shortens a text to bytesMax without splitting a character.
func truncate(text string, bytesMax int) string {
	if len(text) <= bytesMax {
		return text
	}
	for bytesMax > 0 && !utf8.RuneStart(text[bytesMax]) {
		bytesMax--
	}
	return strings.Clone(text[:bytesMax])
}

// By is an order of queries.
type By string

// The orders, each with the largest first.
const (
	ByTime    By = "time"     // total time
	ByMaxTime By = "max_time" // time of the slowest run
	ByCount   By = "count"
	ByMemory  By = "memory" // largest memory of a run
)

// ErrBadOrder means that By has an unknown value.
var ErrBadOrder = errors.New("is not an order of queries: use time, max_time, count or memory")

// List returns the first queries in an order, at most limit, and the number of evicted queries. The error is ErrBadOrder.
func (t *Tracker) List(by By, limit int) (list []Query, evicted uint64, err error) {
	order, err := by.compare()
	if err != nil || t == nil {
		return []Query{}, 0, err
	}
	t.mu.Lock()
	list = make([]Query, 0, len(t.queries))
	for _, q := range t.queries {
		list = append(list, *q)
	}
	evicted = t.evictedCount
	t.mu.Unlock()
	slices.SortFunc(list, func(a, b Query) int {
		return cmp.Or(order(&b, &a), strings.Compare(a.Query, b.Query), strings.Compare(a.Tenant, b.Tenant))
	})
	list = list[:min(limit, len(list))]
	for i := range list {
		list[i].MeanSeconds = list[i].TotalSeconds / float64(list[i].Count)
	}
	return list, evicted, nil
}

func (by By) compare() (func(a, b *Query) int, error) {
	switch by {
	case ByTime:
		return func(a, b *Query) int { return cmp.Compare(a.TotalSeconds, b.TotalSeconds) }, nil
	case ByMaxTime:
		return func(a, b *Query) int { return cmp.Compare(a.MaxSeconds, b.MaxSeconds) }, nil
	case ByCount:
		return func(a, b *Query) int { return cmp.Compare(a.Count, b.Count) }, nil
	case ByMemory:
		return func(a, b *Query) int { return cmp.Compare(a.PeakBytes, b.PeakBytes) }, nil
	}
	return nil, fmt.Errorf("%q %w", string(by), ErrBadOrder)
}
