package loadtest

import (
	"context"
	"slices"
	"time"
)

// tabletsEvery is the time between two looks at the server's tablets.
const tabletsEvery = 5 * time.Second

// tabletWatch looks at the server's tablets during a load. Their counters begin anew when they are divided anew, so it keeps
// the first look at each division.
type tabletWatch struct {
	reader *reader
	now    func() time.Time

	first   []tablet
	firstAt time.Time
}

// run looks until ctx ends. A server that does not tell its tablets is asked once more at the end, for the reason.
func (w *tabletWatch) run(ctx context.Context) {
	for ctx.Err() == nil {
		if list, err := readTablets(ctx, w.reader); err == nil {
			w.look(list)
		}
		sleep(ctx, tabletsEvery)
	}
}

func (w *tabletWatch) look(list []tablet) (same bool) {
	same = slices.EqualFunc(w.first, list, func(a, b tablet) bool { return a.Start == b.Start && a.End == b.End })
	if !same {
		w.first, w.firstAt = list, w.now()
	}
	return same
}

// finish fills in what the server counted up to the last look.
func (w *tabletWatch) finish(last []tablet, t *TabletSpread) {
	if w.look(last) {
		t.CountedSeconds = w.now().Sub(w.firstAt).Seconds()
	} else {
		w.first = make([]tablet, len(last)) // each counts from when it came to be
	}
	rows, bytes := make([]int64, len(last)), make([]int64, len(last))
	for i, x := range last {
		rows[i] = int64(x.RowsWritten - min(w.first[i].RowsWritten, x.RowsWritten))
		bytes[i] = int64(x.BytesWritten - min(w.first[i].BytesWritten, x.BytesWritten))
	}
	t.RowsWritten, t.BytesWritten = newSpread(rows, 0), newSpread(bytes, 0)
}
