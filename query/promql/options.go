package promql

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
	"halite/storage"
	"halite/storage/index"
	"halite/storage/tombstone"
)

// Head holds samples that are not in the data table yet.
type Head interface {
	// AppendSamples appends the unflushed samples of a series with mintMs ≤ time ≤ maxtMs to the two columns, ascending
	// and without duplicates, and returns them. A series it does not know has none.
	AppendSamples(ref index.Ref, mintMs, maxtMs int64, tsMs []int64, values []float64) ([]int64, []float64, error)
	// Holds reports whether AppendSamples may find samples of any series at this moment. It must be cheap.
	Holds(mintMs, maxtMs int64) bool
}

// Catalogue finds series and labels; *index.Index is one. Times are inclusive milliseconds, limit 0 means all, results
// are sorted.
type Catalogue interface {
	Select(ctx context.Context, mintMs, maxtMs int64, matchers ...*labels.Matcher) ([]index.Series, error)
	LabelNames(ctx context.Context, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher) ([]string, error)
	LabelValues(ctx context.Context, name string, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher,
	) ([]string, error)
}

// Options configures a Queryable. Zero fields take the default named beside them.
type Options struct {
	// Catalogue, Head, Data (the table storage.TableData) and Schema (which makes its row keys) are required.
	Catalogue Catalogue
	Head      Head
	Data      storage.Table
	Schema    *keyschema.Schema
	// Retention hides samples older than now − Retention; 0 hides none.
	Retention time.Duration
	// Ages are those of metrics whose samples are hidden sooner; nil if there are none.
	Ages *keyschema.TierRetention
	// Tiers holds states of hours and days; without it all is answered from samples. TierAges are how long they, and the
	// samples, of each metric are kept; required with Tiers. Catalogue knows series as long as their days.
	Tiers    Tiers
	TierAges *keyschema.Retention
	// SeriesMax is the number of series that the selectors of a query may have selected at once; 5,000,000.
	SeriesMax int
	// BytesMax is the memory in bytes that a query's samples and series may take at once; 2 GiB.
	BytesMax int64
	// TotalBytesMax is the memory in bytes that all queries under way may take together; no limit.
	TotalBytesMax int64
	// BatchRowsMax is the number of rows (series × hours) read together, if they are of more than one day; 1024.
	BatchRowsMax int
	// Watch sees all that is written to Data; without it no decoded rows and states are kept.
	Watch *RowWatch
	// RowCacheBytes bounds the memory in bytes of rows and states that are kept decoded; 256 MiB. Below zero none are.
	RowCacheBytes int64
	// Tombstones are what was deleted; Data reads without it. nil if nothing can be deleted.
	Tombstones *tombstone.Set
	// Concurrency is the number of reads that a batch may have under way; as many as there are CPUs, at most 4.
	Concurrency int

	Now        func() time.Time      // time.Now
	Registerer prometheus.Registerer // not registered
}

// Validate lists everything that is wrong.
func (o Options) Validate() error {
	var errs []error
	for _, field := range []struct {
		name    string
		missing bool
	}{
		{"Catalogue", o.Catalogue == nil}, {"Head", o.Head == nil},
		{"Data", o.Data == nil}, {"Schema", o.Schema == nil},
		{"TierAges", o.Tiers != nil && o.TierAges == nil},
	} {
		if field.missing {
			errs = append(errs, fmt.Errorf("promql: %s is required", field.name))
		}
	}
	for _, field := range []struct {
		name  string
		value int64
	}{
		{"Retention", int64(o.Retention)},
		{"SeriesMax", int64(o.SeriesMax)}, {"BytesMax", o.BytesMax},
		{"TotalBytesMax", o.TotalBytesMax},
		{"BatchRowsMax", int64(o.BatchRowsMax)}, {"Concurrency", int64(o.Concurrency)},
	} {
		if field.value < 0 {
			errs = append(errs, fmt.Errorf("promql: %s must not be negative, is %d", field.name, field.value))
		}
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	o.SeriesMax = cmp.Or(o.SeriesMax, 5_000_000)
	o.BytesMax = cmp.Or(o.BytesMax, 2<<30)
	o.TotalBytesMax = cmp.Or(o.TotalBytesMax, math.MaxInt64)
	o.BatchRowsMax = cmp.Or(o.BatchRowsMax, 1024)
	o.RowCacheBytes = cmp.Or(o.RowCacheBytes, 256<<20)
	o.Concurrency = cmp.Or(o.Concurrency, min(4, runtime.GOMAXPROCS(0)))
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}
