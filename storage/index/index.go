package index

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage"
)

// Ref is the dense number of an active series, counted from 1. It is never given to another series within a process.
type Ref uint32

// Options configure an Index.
type Options struct {
	// Store holds the catalogue's tables and the data rows. Required.
	Store storage.Store
	// Schema gives the row keys. Required.
	Schema *keyschema.Schema
	// Retention is how long samples are kept; days that end before it are not answered. 0 keeps all.
	Retention time.Duration
	// CacheBytesMax bounds the decoded segments and dictionaries of closed days; 0 means 128 MiB.
	CacheBytesMax int64
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger takes what an operator should know; nil discards it.
	Logger *slog.Logger
	// Registerer takes the metrics; nil means they are not registered.
	Registerer prometheus.Registerer
}

// Index is the series catalogue.
type Index struct {
	opts Options
}

// HourSpan is a range of unix hours, both inclusive.
type HourSpan struct{ First, Last int64 }

// Series is one label set found by a query.
type Series struct {
	Labels labels.Labels
	// Ref is the series' number among the active ones, 0 if it is not active.
	Ref Ref
	// Hours are the spans in which the series may have samples: ascending, apart from each other, clipped to the query.
	Hours []HourSpan
}

// NameCount is one line of a ranking in Stats.
type NameCount struct {
	Name  string
	Count uint64
}

// Stats describes the active catalogue, for /api/v1/status/tsdb.
type Stats struct {
	// Series is the number of active series, LabelPairs that of distinct name=value pairs among them.
	Series, LabelPairs int
	// SeriesByMetric, ValuesByLabel, BytesByLabel and SeriesByPair are the largest of their kind, descending.
	SeriesByMetric, ValuesByLabel, BytesByLabel, SeriesByPair []NameCount
}

// Open ensures the catalogue's tables and restores the days that are still open.
func Open(ctx context.Context, opts Options) (*Index, error) { panic("not yet") }

// Add returns the Ref of a label set, taking it into the active catalogue if it is new there.
func (x *Index) Add(ls labels.Labels) (ref Ref, created bool, err error) { panic("not yet") }

// Touch records that the series has samples in the hour.
func (x *Index) Touch(ref Ref, hour int64) { panic("not yet") }

// Labels returns the label set of an active series, empty if ref is unknown or retired.
func (x *Index) Labels(ref Ref) labels.Labels { panic("not yet") }

// AppendRowKey appends the series' logical row key of an hour, under the rule in force at that hour.
func (x *Index) AppendRowKey(dst []byte, ref Ref, hour int64) []byte { panic("not yet") }

// Persist writes deltas of all touches that the tables do not hold yet.
func (x *Index) Persist(ctx context.Context) error { panic("not yet") }

// Maintain folds closed days, drops idle series and applies retention.
func (x *Index) Maintain(ctx context.Context) error { panic("not yet") }

// Retire forgets active series that were not touched since idleBeforeHour and for which busy reports false.
func (x *Index) Retire(idleBeforeHour int64, busy func(Ref) bool) []Ref { panic("not yet") }

// Rebuild makes the catalogue of the unix days fromDay to toDay, both inclusive, anew from the row keys of TableData.
func (x *Index) Rebuild(ctx context.Context, fromDay, toDay int64) error { panic("not yet") }

// Select returns the series that match and may have samples in [mintMs, maxtMs], sorted by labels.
func (x *Index) Select(ctx context.Context, mintMs, maxtMs int64, matchers ...*labels.Matcher) ([]Series, error) {
	panic("not yet")
}

// LabelNames returns the label names of the series that Select would find, sorted; limit 0 means all.
func (x *Index) LabelNames(
	ctx context.Context, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher,
) ([]string, error) {
	panic("not yet")
}

// LabelValues returns the values of a label among the series that Select would find, sorted; limit 0 means all.
func (x *Index) LabelValues(
	ctx context.Context, name string, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher,
) ([]string, error) {
	panic("not yet")
}

// Stats describes the active catalogue; limit bounds each ranking, 0 means 10.
func (x *Index) Stats(limit int) Stats { panic("not yet") }
