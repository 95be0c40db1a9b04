package segment

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"halite/storage"
	"halite/storage/index/presence"
)

// Store reads and writes segments.
type Store struct {
	SeriesTable storage.Table
	LabelsTable storage.Table
	Cache       *cache
	Closed      *Set
	Layout      Layout
	// Repairs counts the damage that the server repairs. Logger logs it.
	Repairs prometheus.Counter
	Logger  *slog.Logger
	// Replaced reports whether another process has replaced a generation of a partition. nil means that there is none.
	Replaced func(f *Handle, gen uint32) bool
}

// Content is the content of a new segment.
type Content struct {
	// Metrics and Names, the label names, are sorted. Values has the values of each name, sorted; Values[k][i] has rank i+1.
	Metrics, Names []string
	Values         [][]string
	// Hours numbers the patterns of hours.
	Hours *presence.Patterns
	// Series returns the series of a metric, sorted by labels and without duplicates.
	Series func(ctx context.Context, metric string) (*MetricSeries, error)
}

// MetricSeries are the series of one metric. ids[c][i] is the rank of series i in the label columns[c], 0 if absent.
type MetricSeries struct {
	Columns []int // indexes of labels, ascending
	Ids     [][]uint32
	Hours   []uint32 // number of each series' pattern in Content.Hours
}

// Write writes a generation of a partition to the tables. The generation takes effect with the returned
// manifest.
func (s *Store) Write(ctx context.Context, p presence.Partition, gen uint32, content *Content) (*Manifest, error) {
	w := &writer{x: s, partition: p, gen: gen, m: content}
	return w.write(ctx)
}

// MarkBroken makes queries read the days of a damaged month until a compaction has written the month again.
func (s *Store) MarkBroken(month *Handle, err error) {
	if month.Broken.Swap(true) {
		return
	}
	s.Repairs.Inc()
	s.Logger.Error("index month is damaged; look-ups read its days until it is compacted again",
		"partition", month.Partition.String(), "err", err)
}
