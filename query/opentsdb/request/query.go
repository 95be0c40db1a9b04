package request

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema/tsuid"
	"halite/query/opentsdb/aggregation"
)

// Query is a checked query. Times are in milliseconds since 1970. Both ends are inclusive.
type Query struct {
	StartMs, EndMs int64
	// Start and End are the times as the request spells them.
	Start, End string
	// Zone is the time zone of calendars and dates.
	Zone *time.Location
	// MsResolution makes the response use milliseconds instead of seconds.
	MsResolution bool
	// NoAnnotations omits annotations of series. GlobalAnnotations adds global annotations.
	NoAnnotations, GlobalAnnotations bool
	// ShowTSUIDs, ShowQuery, ShowStats and ShowSummary add these parts to the response.
	ShowTSUIDs, ShowQuery, ShowStats, ShowSummary bool
	// Delete deletes the samples that the query reads.
	Delete bool
	Subs   []SubQuery
}

// SubQuery is a query of one metric.
type SubQuery struct {
	// Index is its position in the Query.
	Index      int
	Aggregator *aggregation.Aggregator
	// Metric is the name of the metric; "" if TSUIDs select the series.
	Metric string
	TSUIDs []string
	// Filters select series. Filters with GroupBy also group them.
	Filters []Filter
	// ExplicitTags selects series that have the tags of the filters and no others.
	ExplicitTags bool
	// Down is nil without downsampling. Downsample is its text.
	Down       *aggregation.Downsampling
	Downsample string
	// Rate is nil without a rate; RateOptions says that the request has options.
	Rate        *aggregation.Rate
	RateOptions bool
	// Percentiles are from 0 to 100 and ascending. If there are any, or with ShowBuckets, the query reads histograms.
	Percentiles []float64
	ShowBuckets bool
	// OffsetMs is added to the times of samples.
	OffsetMs int64
	// RollupUsage says which stored rollups the query reads. RollupText is its text. PreAggregate only appears in the response.
	RollupUsage  RollupUsage
	RollupText   string
	PreAggregate bool
}

// RollupUsage selects whether a query reads stored rollups, and what it reads instead if they have no points.
type RollupUsage uint8

const (
	// RollupRaw reads samples.
	RollupRaw RollupUsage = iota
	// RollupNoFallback reads the rollups with the longest interval that divides the downsampling interval. It reads samples
	// only if no interval does.
	RollupNoFallback
	// RollupFallback tries the intervals from the longest to the shortest until rollups have points, then samples.
	RollupFallback
	// RollupFallbackRaw reads samples if the rollups with the longest interval have no points.
	RollupFallbackRaw
)

// Histograms reports whether the query reads histograms.
func (s *SubQuery) Histograms() bool { return len(s.Percentiles) > 0 || s.ShowBuckets }

// Matchers returns the matchers of a sub-query with a metric. They exclude stored rollups and pre-aggregates, unless a
// filter names their labels.
func (s *SubQuery) Matchers() []*labels.Matcher {
	out := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, s.Metric)}
	for _, f := range s.Filters {
		out = append(out, f.Matchers...)
	}
	for _, name := range []string{tsuid.IntervalLabel, tsuid.AggregatorLabel, tsuid.GroupLabel} {
		named := slices.ContainsFunc(s.Filters, func(f Filter) bool { return f.Key == name })
		if !named {
			out = append(out, labels.MustNewMatcher(labels.MatchEqual, name, ""))
		}
	}
	return out
}

// GroupBy lists the tags that divide series into groups, in the order of the filters.
func (s *SubQuery) GroupBy() (keys []string) {
	for _, f := range s.Filters {
		if f.GroupBy && !slices.Contains(keys, f.Key) {
			keys = append(keys, f.Key)
		}
	}
	return keys
}

// Limits bound the size of a query.
type Limits struct {
	// SubQueriesMax bounds the sub-queries of a query; 0 means 1000.
	SubQueriesMax int
}

// Parser parses queries. It is safe for concurrent use.
type Parser struct {
	now         func() time.Time
	limits      Limits
	aggregators aggregation.Aggregators
}

// NewParser returns a Parser. now is its clock.
func NewParser(now func() time.Time, l Limits) *Parser {
	if l.SubQueriesMax <= 0 {
		l.SubQueriesMax = 1000
	}
	return &Parser{now: now, limits: l, aggregators: aggregation.NewAggregators()}
}

// Aggregators lists the names of the aggregators, sorted.
func (p *Parser) Aggregators() []string { return p.aggregators.Names() }

// Parameters parses the query of a URL. A malformed parameter is an error, because without it the response could lack a
// sub-query.
func Parameters(rawQuery string) (url.Values, error) {
	v, err := url.ParseQuery(rawQuery)
	if err != nil {
		return nil, bad("Bad query string: %s", err)
	}
	return v, nil
}

// URL parses the parameters of a GET request.
func (p *Parser) URL(v url.Values) (*Query, error) {
	raw, err := parseURL(v)
	if err != nil {
		return nil, err
	}
	return p.checkDistinct(raw)
}

func parseURL(v url.Values) (*query, error) {
	if v.Get("start") == "" {
		return nil, bad("Missing parameter <code>start</code>")
	}
	has := func(name string) flag { return flag(v.Has(name) && v.Get(name) != "false") }
	raw := query{
		Start: text(v.Get("start")), End: text(v.Get("end")), Timezone: v.Get("timezone"),
		UseCalendar: has("use_calendar"), NoAnnotations: has("no_annotations"), GlobalAnnotations: has("global_annotations"),
		MsResolution: has("ms"), ShowTSUIDs: has("show_tsuids"), ShowQuery: has("show_query"), ShowStats: has("show_stats"),
		ShowSummary: has("show_summary"), Delete: has("delete"),
	}
	if raw.Timezone == "" {
		raw.Timezone = v.Get("tz")
	}
	for _, spec := range slices.Concat(v["tsuid"], v["tsuids"]) {
		sub, err := parseSpec("tsuid", spec)
		if err != nil {
			return nil, err
		}
		raw.Queries = append(raw.Queries, sub)
	}
	for _, spec := range v["m"] {
		sub, err := parseSpec("m", spec)
		if err != nil {
			return nil, err
		}
		raw.Queries = append(raw.Queries, sub)
	}
	if len(raw.Queries) == 0 {
		return nil, bad("Missing sub queries")
	}
	return &raw, nil
}

// Sub parses a sub-query in the language of the parameter m.
func (p *Parser) Sub(spec string, zone *time.Location) (SubQuery, error) {
	raw, err := parseSpec("m", spec)
	if err != nil {
		return SubQuery{}, err
	}
	return p.checkSub(&raw, 0, zone, false)
}

// checkDistinct checks a query and drops repeated sub-queries, as OpenTSDB does.
func (p *Parser) checkDistinct(raw *query) (*Query, error) {
	q, err := p.check(raw)
	if err != nil {
		return nil, err
	}
	distinct := q.Subs[:0]
	for i := range q.Subs {
		s := &q.Subs[i]
		if !slices.ContainsFunc(distinct, s.equal) {
			s.Index = len(distinct)
			distinct = append(distinct, *s)
		}
	}
	q.Subs = distinct
	return q, nil
}

// equal reports whether two sub-queries of one query are the same.
func (s *SubQuery) equal(other SubQuery) bool {
	sameRate := s.Rate == other.Rate || s.Rate != nil && other.Rate != nil && *s.Rate == *other.Rate
	sameFilter := func(a, b Filter) bool {
		return a.Type == b.Type && a.Key == b.Key && a.Text == b.Text && a.GroupBy == b.GroupBy
	}
	return s.Metric == other.Metric && s.Aggregator == other.Aggregator && s.Downsample == other.Downsample && sameRate &&
		s.RateOptions == other.RateOptions && s.ExplicitTags == other.ExplicitTags && s.ShowBuckets == other.ShowBuckets &&
		s.RollupUsage == other.RollupUsage && s.PreAggregate == other.PreAggregate && slices.Equal(s.TSUIDs, other.TSUIDs) &&
		slices.Equal(s.Percentiles, other.Percentiles) && slices.EqualFunc(s.Filters, other.Filters, sameFilter)
}

// check checks a query and fills in its defaults.
func (p *Parser) check(raw *query) (*Query, error) {
	q := &Query{
		Start: string(raw.Start), End: string(raw.End), MsResolution: bool(raw.MsResolution),
		NoAnnotations: bool(raw.NoAnnotations), GlobalAnnotations: bool(raw.GlobalAnnotations),
		ShowTSUIDs: bool(raw.ShowTSUIDs), ShowQuery: bool(raw.ShowQuery), ShowStats: bool(raw.ShowStats),
		ShowSummary: bool(raw.ShowSummary), Delete: bool(raw.Delete),
	}
	var err error
	if q.Zone, err = p.Zone(raw.Timezone); err != nil {
		return nil, err
	}
	if q.StartMs, q.EndMs, err = p.Times(q.Start, q.End, q.Zone); err != nil {
		return nil, err
	}
	if len(raw.Queries) == 0 {
		return nil, bad("Missing queries")
	}
	if most := p.limits.SubQueriesMax; len(raw.Queries) > most {
		return nil, bad("the query has %d sub-queries, more than the limit of %d (query.max-selectors)",
			len(raw.Queries), most)
	}
	for i := range raw.Queries {
		sub, err := p.checkSub(&raw.Queries[i], i, q.Zone, bool(raw.UseCalendar))
		if err != nil {
			return nil, err
		}
		q.Subs = append(q.Subs, sub)
	}
	return q, nil
}

func (p *Parser) checkSub(raw *subQuery, index int, zone *time.Location, calendar bool) (s SubQuery, err error) {
	s = SubQuery{
		Index: index, Metric: raw.Metric, TSUIDs: raw.TSUIDs, ExplicitTags: bool(raw.ExplicitTags), Downsample: raw.Downsample,
		Percentiles: raw.Percentiles, ShowBuckets: bool(raw.ShowBuckets), RollupText: raw.RollupUsage,
		PreAggregate: bool(raw.PreAggregate), OffsetMs: raw.offsetMs,
	}
	if raw.Aggregator == "" {
		return s, bad("Missing the aggregation function")
	}
	if s.Aggregator = p.aggregators[raw.Aggregator]; s.Aggregator == nil {
		return s, bad("No such aggregation function: %s", raw.Aggregator)
	}
	if s.Metric == "" && len(s.TSUIDs) == 0 {
		return s, bad("Missing the metric or tsuids, provide at least one")
	}
	if s.Filters, err = raw.allFilters(); err != nil {
		return s, err
	}
	if s.Downsample != "" {
		if s.Down, err = p.Downsampling(s.Downsample, zone); err != nil {
			return s, err
		}
		s.Down.Calendar = s.Down.Calendar || calendar
	}
	if raw.Rate {
		s.Rate, s.RateOptions = raw.rate(), raw.RateOptions != nil
	}
	if s.RollupUsage, err = parseRollupUsage(raw.RollupUsage); err != nil {
		return s, err
	}
	return s, s.checkHistograms()
}

// parseRollupUsage parses a rollup usage. Without one a query reads samples.
func parseRollupUsage(text string) (RollupUsage, error) {
	usage, ok := map[string]RollupUsage{
		"": RollupRaw, "ROLLUP_RAW": RollupRaw, "ROLLUP_NOFALLBACK": RollupNoFallback, "ROLLUP_FALLBACK": RollupFallback,
		"ROLLUP_FALLBACK_RAW": RollupFallbackRaw,
	}[strings.ToUpper(text)]
	if !ok {
		return usage, bad("Unknown rollup usage: %s", text)
	}
	return usage, nil
}

// checkHistograms checks the options of a query of histograms.
func (s *SubQuery) checkHistograms() error {
	if !s.Histograms() {
		return nil
	}
	if name := s.Aggregator.Name(); name != "sum" && name != "none" {
		return bad("Only NONE or SUM aggregation function supported for histogram query")
	}
	if s.Down != nil && s.Down.Function.Name() != "sum" {
		return bad("Only SUM downsampling aggregation supported for histogram query")
	}
	slices.Sort(s.Percentiles)
	for _, p := range s.Percentiles {
		if !(p >= 0 && p <= 100) {
			return bad("Invalid percentile parameters: %v", p)
		}
	}
	return nil
}
