package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"halite/storage"
	"halite/storage/jsoncell"
)

// ClockInterval is the time between two calls of Clock.Tick.
const ClockInterval = 10 * time.Minute

// Clock is the clock by which old data is dropped. It follows the clock of the server, but a jump ahead stops it: data that a
// wrong clock drops never comes back. Once the server has run for as long as the allowed jump, the Clock accepts the jump.
//
// Table meta has the last time that the Clock accepted. So it also detects a jump while the server was stopped. A store without
// this time accepts its first clock.
type Clock struct {
	now     func() time.Time
	jumpMax time.Duration
	logger  *slog.Logger
	store   storage.Store
	meta    storage.Table

	seenMs atomic.Int64 // the last accepted time; 1970, which drops nothing, before Load
	waited time.Duration
	ticked time.Time // the clock at the last Tick
	ahead  bool
}

// clockNote is the stored state of a Clock.
type clockNote struct {
	SeenMs   int64 `json:"seen_ms"`
	WaitedMs int64 `json:"waited_ms,omitempty"`
}

func clockCell() jsoncell.Cell { return jsoncell.Cell{Row: metaRow, Qualifier: "clock"} }

// NewClock returns a Clock that drops nothing before Load. jumpMax is the allowed jump; 0 allows every jump.
func NewClock(now func() time.Time, jumpMax time.Duration, logger *slog.Logger, r prometheus.Registerer) (*Clock, error) {
	c := &Clock{now: now, jumpMax: jumpMax, logger: logger}
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "tsdb_retention_clock_ahead_seconds",
		Help: "Jump of the clock that keeps old data from being dropped; 0 if there is none."}, func() float64 {
		now := c.now()
		return now.Sub(c.accepted(now)).Seconds()
	})
	if err := r.Register(gauge); err != nil {
		return nil, fmt.Errorf("register metrics of retention: %w", err)
	}
	return c, nil
}

// Now returns the time of the server's clock, or the last accepted time after a jump.
func (c *Clock) Now() time.Time { return c.accepted(c.now()) }

func (c *Clock) accepted(now time.Time) time.Time {
	if c.isAhead(now) {
		return time.UnixMilli(c.seenMs.Load())
	}
	return now
}

// isAhead reports whether a time is after the last accepted one by more than the allowed jump.
func (c *Clock) isAhead(now time.Time) bool {
	return c.jumpMax > 0 && now.Sub(time.UnixMilli(c.seenMs.Load())) > c.jumpMax
}

// Load reads the last accepted time from the store. The caller then calls Tick each ClockInterval.
func (c *Clock) Load(ctx context.Context, store storage.Store) (err error) {
	c.store, c.ticked = store, c.now()
	if c.meta, err = store.EnsureTable(ctx, storage.MetaSchema()); err != nil {
		return fmt.Errorf("open table %s: %w", storage.TableMeta, err)
	}
	var note clockNote
	found, err := clockCell().Read(ctx, c.meta, &note)
	switch {
	case errors.Is(err, storage.ErrCorrupt):
		c.logger.Warn("the last time that the server has seen is damaged", "err", err)
		note = clockNote{} // a jump since 1970, so nothing is dropped
	case err != nil:
		return err
	case !found:
		note.SeenMs = c.ticked.UnixMilli()
	}
	c.seenMs.Store(max(note.SeenMs, 0))
	c.waited = time.Duration(note.WaitedMs) * time.Millisecond
	c.follow(0)
	return nil
}

// Tick notes that the server has run for one more ClockInterval.
func (c *Clock) Tick(ctx context.Context) error {
	c.follow(ClockInterval)
	if err := clockCell().Write(ctx, c.meta, clockNote{c.seenMs.Load(), c.waited.Milliseconds()}); err != nil {
		return err
	}
	return c.store.Sync(ctx)
}

// follow sets the last accepted time to the clock, unless the clock is ahead and the wait is not over.
func (c *Clock) follow(ran time.Duration) {
	now := c.now()
	jumped := now.Sub(c.ticked) > c.jumpMax
	c.ticked = now
	switch ahead := c.isAhead(now); {
	case !ahead && !c.ahead:
	case !ahead:
		c.logger.Info("the clock is right again; the server drops expired data again", "clock", now)
	case jumped || !c.ahead:
		if c.ahead = true; jumped {
			c.waited = 0
		}
		c.logger.Warn("the clock has jumped ahead, or the server was stopped for long; the server drops no expired data until it "+
			"has run for --storage.retention.clock-jump; if the clock is wrong, set it back before then",
			"clock", now, "last_seen", c.accepted(now), "left", c.jumpMax-c.waited)
		return
	default:
		if c.waited += ran; c.waited < c.jumpMax {
			return
		}
		c.logger.Warn("the clock stayed ahead; the server drops expired data again", "clock", now)
	}
	c.ahead, c.waited = false, 0
	if ran > 0 { // a clock that is only set after the start does not count
		c.seenMs.Store(max(now.UnixMilli(), 0))
	}
}
