package lookup

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// Options configure a Reader.
type Options struct {
	// Retention is the retention of series; nil keeps all.
	Retention *keyschema.TierRetention
	Now       func() time.Time
	// DayReads and MonthReads count the segments that look-ups read.
	DayReads, MonthReads prometheus.Counter
}

// Reader finds the series that match in a time range, among active series and in segments.
type Reader struct {
	opts   Options
	active *memory.Index
	open   *memory.OpenDays
	store  *segment.Store
	seed   uint64 // of the hashes that join label sets
}

// New returns a Reader of active series, the hours of open days, and segments.
func New(active *memory.Index, open *memory.OpenDays, store *segment.Store, opts Options) *Reader {
	return &Reader{opts: opts, active: active, open: open, store: store, seed: rand.Uint64()}
}

// OldestMs is the oldest time that look-ups cover.
func (x *Reader) OldestMs() int64 {
	return x.opts.Retention.Longest().CutoffMs(x.opts.Now().UnixMilli())
}

// ScanDays calls visit with the matching rows of the segments of days. It does not check hours, and reads no months and no
// active series.
func (x *Reader) ScanDays(
	ctx context.Context, mintMs, maxtMs int64, matchers []*labels.Matcher,
	visit func(s *segment.Segment, b *segment.Block, rows []uint32) error,
) error {
	q, ok := x.newQuery(ctx, nil, mintMs, maxtMs, matchers)
	if !ok {
		return ctx.Err()
	}
	q.open, q.months = nil, ByDays
	q.findClosed()
	return q.forEachClosed(func(s *segment.Segment) error { return q.scanSegment(s, visit) })
}

// Choices between days and months. Each choice reads a day from one place only.
var (
	ByDays   = segment.MonthRule{DaysMin: presence.MonthDaysMax + 1, Share: 1}
	ByMonths = segment.MonthRule{DaysMin: 1, Share: 1<<64 - 1}
)
