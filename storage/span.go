package storage

import (
	"context"
	"fmt"
	"math"
)

// CellSpan is a part of a family: the cells of some rows whose timestamps lie in some whole days.
type CellSpan struct {
	Family string
	// Rows are ranges that may overlap; without any the span is empty.
	Rows []RowRange
	// FromDay ≤ day < ToDay; days are counted from 1970 in UTC.
	FromDay, ToDay int64
}

// DayMs is the length of a day in milliseconds.
const DayMs = 24 * 60 * 60 * 1000

// WholeDays is the first and the last millisecond of the days in which the times from fromMs to toMs lie, which are not
// negative.
func WholeDays(fromMs, toMs int64) (firstMs, lastMs int64) {
	toMs = min(toMs, math.MaxInt64-DayMs)
	return fromMs - fromMs%DayMs, toMs - toMs%DayMs + DayMs - 1
}

// SpanTable is a Table that can drop and weigh spans. Tables of all engines are; tables that wrap others need not be,
// because who drops what retention hides anyway needs no wrapper's leave: ask the engine's own table.
type SpanTable interface {
	Table
	// DropCells removes the cells of the span, at once for reads. An engine that places cells by time does so without
	// looking at them. It may be repeated; if it fails some of the cells may be gone. Like Apply it is durable after
	// Store.Sync.
	DropCells(ctx context.Context, span CellSpan) error
	// Reclaim frees the space of dropped cells of the span, which otherwise takes its time. It may take long.
	Reclaim(ctx context.Context, span CellSpan) error
	// SpanBytes estimates the space that the span takes on disk, without what is not written out yet. An engine that
	// cannot tell returns errors.ErrUnsupported.
	SpanBytes(ctx context.Context, span CellSpan) (sizeBytes int64, err error)
	// Days lists the days that may have cells of a family, ascending. An engine that cannot tell returns
	// errors.ErrUnsupported.
	Days(ctx context.Context, family string) ([]int64, error)
}

// CheckSpan reports, wrapping ErrBadMutation, what is wrong with a span.
func CheckSpan(schema *TableSchema, s *CellSpan) error {
	if _, ok := schema.Family(s.Family); !ok {
		return fmt.Errorf("%w: table %s has no family %q", ErrBadMutation, schema.Name, s.Family)
	}
	if s.FromDay < 0 || s.ToDay < s.FromDay || s.ToDay > TsMsMax/DayMs+1 {
		return fmt.Errorf("%w: days %d to %d, want 0 ≤ from ≤ to ≤ %d", ErrBadMutation, s.FromDay, s.ToDay, TsMsMax/DayMs+1)
	}
	return nil
}
