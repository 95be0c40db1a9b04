package distribution

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"halite/keyschema"
	"halite/loadtest/client"
)

// Tablet is one of the server's tablets of samples: the keys from Start to End, End excluded.
type Tablet struct {
	Start        string `json:"start"`
	End          string `json:"end"`
	RowsWritten  uint64 `json:"rowsWritten"`
	BytesWritten uint64 `json:"bytesWritten"`
}

// ReadTablets reads the tablets of the server's data table.
func ReadTablets(ctx context.Context, q *client.Querier) ([]Tablet, error) {
	data, err := q.Data(ctx, "/api/v1/status/tablets", nil)
	if err != nil {
		return nil, err
	}
	var d struct {
		Tables []struct {
			Name    string   `json:"name"`
			Tablets []Tablet `json:"tablets"`
		} `json:"tables"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("list of tablets: %w", err)
	}
	for _, t := range d.Tables {
		if t.Name == "data" && len(t.Tablets) > 0 {
			return t.Tablets, nil
		}
	}
	return nil, fmt.Errorf("list of tablets: table %q is missing", "data")
}

// ReadSchema reads the schema rules of the server.
func ReadSchema(ctx context.Context, q *client.Querier) (*keyschema.Schema, error) {
	data, err := q.Data(ctx, "/api/v1/status/schema", nil)
	if err != nil {
		return nil, err
	}
	var d struct {
		Rules []keyschema.Rule `json:"rules"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("schema rules: %w", err)
	}
	return keyschema.NewSchema(d.Rules)
}

// tabletsEvery is the time between two reads of the server's tablets.
const tabletsEvery = 5 * time.Second

// TabletWatcher reads the server's tablets during a load. A split resets their counters, so the watcher keeps the first
// counters after the last split.
type TabletWatcher struct {
	querier *client.Querier
	now     func() time.Time

	first   []Tablet
	firstAt time.Time
}

// NewTabletWatcher returns a watcher of the server that q queries.
func NewTabletWatcher(q *client.Querier, now func() time.Time) *TabletWatcher {
	return &TabletWatcher{querier: q, now: now}
}

// Run reads the tablets until ctx ends. It ignores errors, because the read at the end of the load reports them.
func (w *TabletWatcher) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if list, err := ReadTablets(ctx, w.querier); err == nil {
			w.observe(list)
		}
		client.Sleep(ctx, tabletsEvery)
	}
}

// observe reports whether the tablets have the same ranges as before. If not, it keeps list as the first counters.
func (w *TabletWatcher) observe(list []Tablet) (same bool) {
	same = slices.EqualFunc(w.first, list, func(a, b Tablet) bool { return a.Start == b.Start && a.End == b.End })
	if !same {
		w.first, w.firstAt = list, w.now()
	}
	return same
}

// Finish reports the rows and bytes that the server counted up to its last list of tablets.
func (w *TabletWatcher) Finish(last []Tablet, report *ByTablet) {
	if w.observe(last) {
		report.CountedSeconds = w.now().Sub(w.firstAt).Seconds()
	} else {
		w.first = make([]Tablet, len(last)) // each tablet counts since its creation
	}
	rows, bytes := make([]int64, len(last)), make([]int64, len(last))
	for i, x := range last {
		rows[i] = int64(x.RowsWritten - min(w.first[i].RowsWritten, x.RowsWritten))
		bytes[i] = int64(x.BytesWritten - min(w.first[i].BytesWritten, x.BytesWritten))
	}
	report.RowsWritten, report.BytesWritten = newSkew(rows, 0), newSkew(bytes, 0)
}
