package storage

import (
	"context"
	"fmt"
	"math"
)

// CellSpan is a part of a family: the cells of some rows whose timestamps lie in some whole days.
type CellSpan struct {
	Family string
	// Rows are ranges, which may overlap. Without rows, the span is empty.
	Rows []RowRange
	// FromDay ≤ day < ToDay. Days count from 1970-01-01 in UTC.
	FromDay, ToDay int64
}

// DayMs is the length of a day in milliseconds.
const DayMs = 24 * 60 * 60 * 1000

// WholeDays returns the first and the last millisecond of the days from fromMs to toMs, which are not negative.
func WholeDays(fromMs, toMs int64) (firstMs, lastMs int64) {
	toMs = min(toMs, math.MaxInt64-DayMs)
	return fromMs - fromMs%DayMs, toMs - toMs%DayMs + DayMs - 1
}

// SpanTable is a Table that can drop and measure spans. The tables of all engines are SpanTables. A table that wraps another
// one may not be: a caller that drops expired cells uses the engine's own table.
type SpanTable interface {
	Table
	// DropCells removes the cells of the span. After it returns, reads do not find these cells. An engine that places
	// cells by time does not read them. If DropCells fails, some cells may be gone, and the caller may repeat it. Like
	// Apply, it is durable after Store.Sync.
	DropCells(ctx context.Context, span CellSpan) error
	// Reclaim frees the space of dropped cells of the span earlier than the engine would. It may take long.
	Reclaim(ctx context.Context, span CellSpan) error
	// SpanBytes estimates the space of the span on disk, without unflushed cells. An engine without such a figure returns
	// errors.ErrUnsupported.
	SpanBytes(ctx context.Context, span CellSpan) (sizeBytes int64, err error)
	// Days lists the days that may have cells of a family, ascending. An engine without such a list returns
	// errors.ErrUnsupported.
	Days(ctx context.Context, family string) ([]int64, error)
}

// CheckSpan checks a span. Its error wraps ErrBadMutation.
func CheckSpan(schema *TableSchema, s *CellSpan) error {
	if _, ok := schema.Family(s.Family); !ok {
		return fmt.Errorf("%w: table %s has no family %q", ErrBadMutation, schema.Name, s.Family)
	}
	if s.FromDay < 0 || s.ToDay < s.FromDay || s.ToDay > TsMsMax/DayMs+1 {
		return fmt.Errorf("%w: days %d to %d, want 0 ≤ from ≤ to ≤ %d", ErrBadMutation, s.FromDay, s.ToDay, TsMsMax/DayMs+1)
	}
	return nil
}
