package rollups

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/query/read"
	"halite/rollup"
	rollupstore "halite/rollup/store"
)

// fromMs is the origin of the times in the cases: 20 January 2024.
const fromMs = 19_742 * dayMs

// plannedStore has the hourly states of the days before hours, and the daily states of the days before days. Both count from
// fromMs.
type plannedStore struct{ hours, days int64 }

func (s plannedStore) Has(unit rollupstore.Unit, day int64) bool {
	if day -= fromMs / dayMs; unit == rollupstore.Hours {
		return day < s.hours
	}
	return day < s.days
}

func (plannedStore) AppendVersions(dst []uint64, _ rollupstore.Unit, _, _ int64) []uint64 { return dst }

func (plannedStore) Read(context.Context, rollupstore.Request, func(int, *rollup.Columns) error) error {
	return nil
}

// TestPlan shows how each day of a window is read. Times count from fromMs. Days before hours= and days= have states.
func TestPlan(t *testing.T) {
	datadriven.RunTest(t, "testdata/plan", func(t *testing.T, d *datadriven.TestData) string {
		duration := func(name string) (out time.Duration) {
			if d.HasArg(name) {
				var text string
				var err error
				d.ScanArgs(t, name, &text)
				out, err = time.ParseDuration(text)
				require.NoError(t, err)
			}
			return out
		}
		ms := func(name string) int64 { return duration(name).Milliseconds() }
		var store plannedStore
		d.MaybeScanArgs(t, "hours", &store.hours)
		d.MaybeScanArgs(t, "days", &store.days)
		retention := keyschema.NewRetentionByTier(duration("keep-raw"), duration("keep-hours"), 0)
		r, err := New(Options{
			Store: store, Now: func() time.Time { return time.UnixMilli(fromMs + ms("now")) },
		})
		require.NoError(t, err)
		w := read.Windows{FirstEndMs: fromMs + ms("end"), StepMs: max(1, ms("step")), Steps: 1, RangeMs: ms("range")}
		d.MaybeScanArgs(t, "steps", &w.Steps)
		s := &Session{reader: r, ages: keyschema.Uniform(retention)}
		p := s.Plan(t.Context(), w, rollup.MaxOverTime.Fields(), d.HasArg("always"))
		if p == nil {
			return "samples: no state is considered"
		}
		return describe(p)
	})
}

// describe prints the decision and how each day is read. It prints adjacent equal days as one line.
func describe(p *Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "use states: %t (%s)\n", p.Use, p.Reason)
	names := [...]string{"unused", "rows", "hour states", "hour states joined", "day state", "day state alone"}
	for i := 0; i < len(p.days); {
		first, way := i, p.days[i]
		for i < len(p.days) && p.days[i] == way {
			i++
		}
		fmt.Fprintf(&b, "days %d to %d: %s\n", p.firstDay+int64(first)-fromMs/dayMs, p.firstDay+int64(i-1)-fromMs/dayMs, names[way])
	}
	return b.String()
}
