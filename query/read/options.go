package read

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/keyschema/exemplar"
	"halite/keyschema/histchunk"
	"halite/query/budget"
	"halite/query/lastread"
	"halite/query/rowcache"
	rollupstore "halite/rollup/store"
	"halite/storage"
	"halite/storage/histmetrics"
	"halite/storage/index"
	"halite/storage/tombstone"
)

// Head holds samples that are not in the data table yet.
type Head interface {
	// AppendBatch appends the unflushed samples of several series in a window to the two columns. The samples of each series
	// are contiguous, ascending and without duplicates. It appends the end of each series in the columns to ends. A ref is an
	// index.Ref; an unknown one has no samples.
	AppendBatch(refs []uint32, w keyschema.SampleWindow, tsMs []int64, values []float64, ends []int,
	) ([]int64, []float64, []int, error)
	// AppendStartTimes appends the start timestamps of a series to the two columns. A value is the start timestamp, in
	// milliseconds since 1970, of the sample with the same time.
	AppendStartTimes(ref index.Ref, mintMs, maxtMs int64, tsMs []int64, values []float64) ([]int64, []float64, error)
	// AppendHistograms and AppendExemplars append the unflushed samples of a series with mintMs ≤ time ≤ maxtMs.
	AppendHistograms(ref index.Ref, mintMs, maxtMs int64, dst []histchunk.Sample) ([]histchunk.Sample, error)
	AppendExemplars(ref index.Ref, mintMs, maxtMs int64, dst []exemplar.Exemplar) ([]exemplar.Exemplar, error)
	// Holds reports whether the calls above may return samples of any series now. It must be cheap.
	Holds(mintMs, maxtMs int64) bool
}

// Index finds series and labels; *index.Index implements it. Times are inclusive milliseconds, limit 0 means all, results
// are sorted.
type Index interface {
	Select(ctx context.Context, budget index.Budget, mintMs, maxtMs int64, matchers ...*labels.Matcher) ([]index.Series, error)
	// SelectProjected is Select, but it may omit labels of a series, see [index.Index.SelectProjected].
	SelectProjected(ctx context.Context, budget index.Budget, names []string, mintMs, maxtMs int64, matchers ...*labels.Matcher,
	) ([]index.Series, error)
	// SelectJoin is Select, but may omit series that match no keys, see [index.Index.SelectJoin].
	SelectJoin(ctx context.Context, budget index.Budget, keys *index.JoinKeys, mintMs, maxtMs int64, matchers ...*labels.Matcher,
	) (found []index.Series, omitted int, err error)
	LabelNames(ctx context.Context, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher) ([]string, error)
	LabelValues(ctx context.Context, name string, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher,
	) ([]string, error)
}

// HourlyHistograms reads the histograms in the hourly states of each series, see [rollupstore.Store.ReadHistograms].
type HourlyHistograms func(
	ctx context.Context, req rollupstore.Request, visit func(i int, samples []histchunk.Sample) error,
) error

// Options configures a Reader. A zero field means the default that its comment names.
type Options struct {
	// Index, Head, Data (the table storage.TableData) and Schema (which makes its row keys) are required.
	Index  Index
	Head   Head
	Data   storage.Table
	Schema *keyschema.Schema
	// Histograms is the set of metrics with histograms; nil if there are none.
	Histograms *histmetrics.Set
	// HourlyHistograms reads the native histograms that rollup states keep for retired samples; nil if there are no rollups.
	HourlyHistograms HourlyHistograms
	// StartTimes returns start timestamps with the samples that Prometheus's engine reads.
	StartTimes bool
	// ExemplarsMax bounds the exemplars that a query returns for a series and hour; 0 means no bound. It returns the newest
	// ones. Each flush of an hour may have stored that number.
	ExemplarsMax int
	// Retention hides samples older than now − Retention; nil hides none. A session uses the ages that are current when it
	// begins.
	Retention *keyschema.TierRetention
	// SeriesMax bounds the series that the selectors of a query hold at the same time; 5,000,000.
	SeriesMax int
	// BytesMax bounds the memory in bytes of a query's samples and series; 2 GiB.
	BytesMax int64
	// BytesLimit returns a smaller bound for the principal in ctx, 0 if there is none. The bound may change while the Reader is
	// in use. nil means none.
	BytesLimit func(ctx context.Context) int64
	// TotalBytesMax bounds the memory in bytes of all queries together; no limit.
	TotalBytesMax int64
	// BatchRowsMax is the number of rows (series × hours) in a batch of more than one day; 1024.
	BatchRowsMax int
	// RangeBatchRowsMax replaces BatchRowsMax for series with several rows of at most one day, if they need more than one
	// batch; 256. The samples of such a batch, about a mebibyte, fit into the caches of the CPU.
	RangeBatchRowsMax int
	// Cache holds decoded rows; nil if there is none.
	Cache *rowcache.Cache
	// NewestRow returns an hour after which Data has no rows; nil if there is no such hour. A write raises it before its rows are
	// visible.
	NewestRow func() int64
	// Tombstones are the deletions that Data hides; nil if deletions are not supported.
	Tombstones *tombstone.Set
	// LastReads records which metrics queries read; nil records nothing.
	LastReads *lastread.Tracker
	// Concurrency is the number of concurrent reads of a batch; the number of CPUs, at most 4.
	Concurrency int

	Now        func() time.Time      // time.Now
	Registerer prometheus.Registerer // not registered
}

// Validate lists all faults.
func (o Options) Validate() error {
	var errs []error
	for _, field := range []struct {
		name    string
		missing bool
	}{
		{"Index", o.Index == nil}, {"Head", o.Head == nil},
		{"Data", o.Data == nil}, {"Schema", o.Schema == nil},
	} {
		if field.missing {
			errs = append(errs, fmt.Errorf("read: %s is required", field.name))
		}
	}
	for _, field := range []struct {
		name  string
		value int64
	}{
		{"SeriesMax", int64(o.SeriesMax)}, {"BytesMax", o.BytesMax},
		{"TotalBytesMax", o.TotalBytesMax},
		{"BatchRowsMax", int64(o.BatchRowsMax)}, {"RangeBatchRowsMax", int64(o.RangeBatchRowsMax)},
		{"Concurrency", int64(o.Concurrency)}, {"ExemplarsMax", int64(o.ExemplarsMax)},
	} {
		if field.value < 0 {
			errs = append(errs, fmt.Errorf("read: %s is %d; it must not be negative", field.name, field.value))
		}
	}
	return errors.Join(errs...)
}

// limits returns the limits of one query.
func (o *Options) limits(ctx context.Context) budget.Limits {
	out := budget.Limits{SeriesMax: int64(o.SeriesMax), BytesMax: o.BytesMax}
	if o.BytesLimit != nil {
		if most := o.BytesLimit(ctx); most > 0 {
			out.BytesMax = min(out.BytesMax, most)
		}
	}
	return out
}

func (o Options) withDefaults() Options {
	o.SeriesMax = cmp.Or(o.SeriesMax, 5_000_000)
	o.BytesMax = cmp.Or(o.BytesMax, 2<<30)
	o.TotalBytesMax = cmp.Or(o.TotalBytesMax, math.MaxInt64)
	o.BatchRowsMax = cmp.Or(o.BatchRowsMax, 1024)
	o.RangeBatchRowsMax = cmp.Or(o.RangeBatchRowsMax, 256)
	o.Concurrency = cmp.Or(o.Concurrency, min(4, runtime.GOMAXPROCS(0)))
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// labelMetric is the label that holds the metric.
const labelMetric = "__name__"
