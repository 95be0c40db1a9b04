package read

import (
	"cmp"
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/query/column"
	"halite/query/hours"
	"halite/query/rowcache"
	"halite/storage/index"
)

// request describes a selection.
type request struct {
	window column.TimeRange
	nowMs  int64
	// oldestMs is the first time within the longest retention of samples. The window begins earlier if hourly histograms do.
	oldestMs int64
	hours    []index.HourSpan // the only hours to read; nil means all of the window
	// unretained: samples that are older than the retention of their metric are not hidden.
	unretained bool

	join      *index.JoinKeys // series that match none of these keys may be omitted; nil if all are needed
	projected bool            // only the metric's name and the labels with these names are needed
	names     []string

	limit                  int
	shardIndex, shardCount uint64

	// steps is the number of values that each series is evaluated to; 0 if series are read one after the other.
	steps int
	kinds kinds // of samples to read; setSeries adds histograms
	// pin allows columns without TsMs in the memory of the row cache. latest is Windows.Latest.
	pin, latest bool
	// retired means that histograms of the window are retired. presence is Windows.Presence without retired histograms, which
	// need a warning.
	retired, presence bool
}

// Selection is the series of a selector, sorted by labels and divided into batches of neighbours.
type Selection struct {
	request
	session    *Session
	series     []index.Series
	bounds     []boundary
	reserved   int             // series in the budget
	joined     bool            // a series consists of several stored ones
	relabelled bool            // a series has other labels in other hours of the window
	metric     string          // a metric that may have histograms, if kinds has them
	omitted    int             // series that SelectJoin has omitted
	cache      *rowcache.Cache // nil if it is not used
	merge      bool            // the row cache may merge rows
	version    uint64          // version of the row cache before the look-up in the index
	// neighbours is nil if the selection omits series that match the matchers.
	neighbours *neighbours
}

// boundary is where a batch begins.
type boundary struct {
	first    int // series
	streamed bool
	dayRows  int // rows of a day, at most
}

// newSelection looks up the series of a request in the index and divides them into batches.
func newSelection(ctx context.Context, session *Session, r request, matchers []*labels.Matcher) (*Selection, error) {
	s := &Selection{request: r, session: session}
	if s.window.Empty() {
		return s, nil
	}
	s.version = session.reader.opts.Cache.Version()
	reserve, done := session.budget.ForLookup()
	defer done()
	var (
		from, to = s.window.MinMs, s.window.MaxMs
		x        = session.reader.opts.Index
		series   []index.Series
		err      error
	)
	switch {
	case s.join != nil:
		series, s.omitted, err = x.SelectJoin(ctx, reserve, s.join, from, to, matchers...)
	case s.projected:
		series, err = x.SelectProjected(ctx, reserve, s.names, from, to, matchers...)
	default:
		series, err = x.Select(ctx, reserve, from, to, matchers...)
	}
	if err != nil {
		return nil, Classify("select series", err)
	}
	session.reader.noteReads(ctx, matchers, series)
	series = s.restrictToRetention(series)
	if s.hours != nil {
		series = restrictHours(series, s.hours)
	}
	if s.omitted == 0 && s.shardCount < 2 && !session.reader.aliased(ctx, s.window, matchers) {
		s.neighbours = newNeighbours(matchers)
	}
	series = shard(series, s.shardIndex, s.shardCount)
	if s.limit > 0 && s.limit < len(series) {
		series = series[:s.limit]
	}
	if err := s.setSeries(series); err != nil {
		return nil, err
	}
	session.figures.series.Add(int64(len(series)))
	session.reader.metrics.series.Add(float64(len(series)))
	return s, nil
}

// restrictHours restricts each series to the needed hours, and omits series without such hours.
func restrictHours(series []index.Series, needed []index.HourSpan) []index.Series {
	out := series[:0:0]
	for _, s := range series {
		if s.Hours = hours.Intersect(s.Hours, needed); len(s.Hours) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// Len returns the number of series.
func (s *Selection) Len() int { return len(s.series) }

// Labels returns the labels of series i.
func (s *Selection) Labels(i int) labels.Labels { return s.series[i].Labels }

// Stored calls visit with the stored labels of a series, once for each stored series that it consists of.
func (s *Selection) Stored(i int, visit func(labels.Labels)) {
	parts := s.series[i].Parts()
	if parts == nil {
		parts = s.series[i : i+1]
	}
	for k := range parts {
		if alias := parts[k].Alias; alias != nil {
			visit(alias.Stored)
		} else {
			visit(parts[k].Labels)
		}
	}
}

// Group identifies the projected label set of series i: equal groups imply equal Labels. 0 means unassigned. See
// [index.Series].
func (s *Selection) Group(i int) uint32 { return s.series[i].Group }

// Omitted returns the number of series that SelectJoin has omitted.
func (s *Selection) Omitted() int { return s.omitted }

// Keep omits the series for which keep is false, before any batch is read.
func (s *Selection) Keep(keep func(i int) bool) {
	kept := make([]index.Series, 0, len(s.series))
	for i := range s.series {
		if keep(i) {
			kept = append(kept, s.series[i])
		}
	}
	if len(kept) < len(s.series) {
		s.neighbours = nil
	}
	s.session.budget.ReleaseSeries(len(s.series) - len(kept))
	s.series, s.reserved, s.bounds = kept, len(kept), nil
	s.divide()
}

// Batches returns the number of batches.
func (s *Selection) Batches() int { return len(s.bounds) }

// Streamed reports whether batch i must be read slice by slice. All other batches may be read concurrently.
func (s *Selection) Streamed(i int) bool { return s.bounds[i].streamed }

// BatchOf returns the number of the batch of series i.
func (s *Selection) BatchOf(i int) int {
	n, found := slices.BinarySearchFunc(s.bounds, i, func(b boundary, i int) int { return cmp.Compare(b.first, i) })
	if found {
		return n
	}
	return n - 1
}

// Close releases the series. Batches that were read stay valid until they are released.
func (s *Selection) Close() {
	s.session.budget.ReleaseSeries(s.reserved)
	s.reserved = 0
}

// setSeries reserves the series in the budget and divides them into batches.
func (s *Selection) setSeries(series []index.Series) error {
	if err := s.session.budget.ReserveSeries(len(series)); err != nil {
		return err
	}
	s.reserved, s.series = len(series), series
	s.joined = slices.ContainsFunc(series, func(one index.Series) bool { return one.Parts() != nil })
	s.relabelled = slices.ContainsFunc(series, relabelled)
	s.pin = s.pin && !s.joined
	s.findHistograms()
	if !s.kinds.has(keyschema.Histograms) {
		s.window.MinMs = max(s.window.MinMs, s.oldestMs)
	}
	s.divide()
	return nil
}

const (
	// streamShare: a series with more than 1/streamShare of BatchRowsMax is streamed if other series are evaluated with it.
	streamShare = 4
	// batchValuesMax bounds the results (series × steps) of a streamed batch, which stay in memory until its last slice is read.
	batchValuesMax = 1 << 20
)

// divide makes batches. Batches of short series have at most BatchRowsMax rows. If one batch cannot hold all series, series with
// several rows of a day are in smaller batches, see RangeBatchRowsMax. Long series are streamed. If they are evaluated together,
// a batch has many of them, so that each day needs few reads. Otherwise a batch has one series.
func (s *Selection) divide() {
	var (
		o          = &s.session.reader.opts
		perDay     = s.hoursPerDay()
		rows       int // of the batch
		all        = s.rows()
		rowsMax    = s.kinds.batchRows(o.BatchRowsMax)
		rangeMax   = rowsMax
		longSeries = rowsMax
	)
	if all > rowsMax {
		rangeMax = min(rowsMax, s.kinds.batchRows(o.RangeBatchRowsMax))
	}
	if s.steps > 0 {
		longSeries = max(1, rowsMax/streamShare)
	}
	for i := range s.series {
		n := hours.Count(s.series[i].Hours)
		long, dayRows := n > longSeries, min(n, perDay)
		if i > 0 {
			last := &s.bounds[len(s.bounds)-1]
			count := i - last.first + 1
			switch {
			case long != last.streamed:
			case !long && (rows+n <= rangeMax || rows+n <= rowsMax && (n <= 1 || n > keyschema.DayHours)):
				rows += n
				continue
			case long && last.dayRows+dayRows <= rowsMax && count*s.steps <= batchValuesMax && s.steps > 0:
				last.dayRows += dayRows
				continue
			}
		}
		s.bounds = append(s.bounds, boundary{first: i, streamed: long, dayRows: dayRows})
		rows = n
	}
	if s.neighbours != nil {
		s.neighbours.divided = len(s.bounds) > 1
	}
	s.UseCache(all)
}

// rows returns the number of rows of all series.
func (s *Selection) rows() (n int) {
	for i := range s.series {
		n += hours.Count(s.series[i].Hours)
	}
	return n
}

// UseCache decides whether the selection uses the row cache. rows is the number of rows to read.
func (s *Selection) UseCache(rows int) {
	s.cache, s.merge = nil, false
	if s.kinds.records() || s.relabelled {
		return // the cache holds only floats, and only stored series
	}
	if c := s.session.reader.opts.Cache; c.Admits(rows) {
		s.cache = c
		s.merge = s.pin && s.hours == nil && c.AdmitsMerged(rows)
	}
}

// hoursPerDay returns the largest number of hours that are read of one day.
func (s *Selection) hoursPerDay() int {
	if s.hours == nil {
		return keyschema.DayHours
	}
	most, day, rows := 1, int64(-1), 0
	for _, span := range s.hours {
		for hour := span.First; hour <= span.Last && most < keyschema.DayHours; hour++ {
			if hour/keyschema.DayHours != day {
				day, rows = hour/keyschema.DayHours, 0
			}
			rows++
			most = max(most, rows)
		}
	}
	return most
}

// shard keeps the series whose stable hash falls into shard index of count; count 0 or 1 keeps all.
func shard(series []index.Series, shardIndex, count uint64) []index.Series {
	if count < 2 {
		return series
	}
	return slices.DeleteFunc(series, func(s index.Series) bool {
		return labels.StableHash(s.Labels)%count != shardIndex
	})
}
