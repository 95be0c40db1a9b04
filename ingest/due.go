package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halite/ingest/head"
	"halite/keyschema"
)

// What decides about late rows, in ticks of Options.Head.FlushInterval and in memory.
const (
	// idleTicks without a sample make a row of a closed hour due: a backfill has moved on.
	idleTicks = 2
	// patienceTicks after its first sample it is due anyway.
	patienceTicks = 40
	// backlogShare is the part of HeadOptions.BytesMax that a backfill may use before its rows go without waiting.
	backlogShare = 4
)

// flushDue writes the rows of hours that closed a while ago, one slice of the table's keys after the other over
// HeadOptions.Spread, so that not all go at once; and rows that wait for another reason. The caller holds flushMu.
func (i *Ingester) flushDue(ctx context.Context, now time.Time) error {
	nowMs, graceMs, tick := now.UnixMilli(), i.hopts.Grace.Milliseconds(), i.tickAt(now)
	open := keyschema.HourOf(max(0, nowMs-graceMs))
	if i.order.hour != open && i.order.makeOf(i, func(row head.RowInfo) bool { return row.Hour < open }) {
		i.order.hour = open
	}
	backlog := i.hasBacklog(open)
	spreadMs, count := i.hopts.Spread.Milliseconds(), int64(i.order.slices())
	_, err := i.flushRows(ctx, func(row head.RowInfo) bool {
		if row.Frozen || backlog && row.Hour < open-1 {
			return true
		}
		if row.Hour >= open || tick-row.LastTick < idleTicks && tick-row.MadeTick < patienceTicks {
			return false
		}
		waitMs := graceMs + spreadMs*int64(i.order.slice(row.Ref))/count
		return keyschema.HourCellMs(row.Hour)+waitMs < nowMs
	})
	return err
}

// hasBacklog tells whether rows of hours before the one that closed last take so much memory that they had better go at
// once, those that are still being filled among them.
func (i *Ingester) hasBacklog(open int64) bool {
	most := i.rowBytesMax() / backlogShare
	if i.head.Bytes() <= most {
		return false
	}
	_, bytes := i.countRows(func(row head.RowInfo) bool { return row.Hour < open-1 })
	return bytes > most
}

// relieve flushes early what memory pressure demands: first all rows of closed hours, then the largest open ones. The
// caller holds flushMu.
func (i *Ingester) relieve(ctx context.Context) (rows int, err error) {
	most := i.rowBytesMax()
	if i.head.Bytes() <= most {
		return 0, nil
	}
	target := most / 4 * 3
	rows, err = i.flushRows(ctx, i.ofClosedHours())
	if err != nil || i.head.Bytes() <= target {
		return rows, err
	}
	excess := i.head.Bytes() - target
	sizes := i.head.Pressure()
	exp := len(sizes) - 1
	for ; exp > 0 && excess > sizes[exp]; exp-- {
		excess -= sizes[exp]
	}
	least := int64(1) << exp / 2
	more, err := i.flushRows(ctx, func(row head.RowInfo) bool { return row.Bytes >= least })
	return rows + more, err
}

// ofClosedHours chooses the rows of closed hours and those that wait for another reason.
func (i *Ingester) ofClosedHours() func(row head.RowInfo) bool {
	current := keyschema.HourOf(max(0, i.opts.Now().UnixMilli()))
	return func(row head.RowInfo) bool { return row.Frozen || row.Hour < current }
}

// shorten flushes the rows that keep the log above its limit, or above a segment while disk space lacks, and truncates
// it to half of that: first all rows of closed hours, then open ones that need the oldest segments, which get another
// run at the hour's end. The caller holds flushMu.
func (i *Ingester) shorten(ctx context.Context) error {
	limit := i.opts.WALBytesMax
	if i.noSpace.Load() {
		limit = min(limit, i.segmentBytes)
	}
	if i.log.Stats().SizeBytes <= limit {
		return nil
	}
	first := i.log.Since(limit / 2)
	_, err := i.flushRows(ctx, i.ofClosedHours())
	if oldest, ok := i.head.OldestSegment(); err == nil && ok && oldest < first {
		_, err = i.flushRows(ctx, func(row head.RowInfo) bool { return row.Segment < first })
	}
	// What was flushed before a failure may be enough to free some of the log.
	return errors.Join(err, i.checkpoint(ctx, false))
}

// checkLog sets whether writes are refused because the log cannot be shortened, and has it shortened when it is time.
func (i *Ingester) checkLog() {
	size := i.log.Stats().SizeBytes
	hard := i.opts.WALBytesMax + i.opts.WALBytesMax/4
	if size > i.opts.WALBytesMax {
		i.wakeFlusher()
	}
	if full := size > hard; i.logFull.Swap(full) != full && full {
		i.opts.Logger.Error(fmt.Sprintf("refusing writes: the write-ahead log has %d bytes and cannot be shortened", size),
			"limit_bytes", i.opts.WALBytesMax)
	}
}
