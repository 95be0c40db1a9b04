package job

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/rollup/store"
	"halite/storage"
	"halite/storage/tombstone"
)

// plannedJob is the job of TestPlan together with its log.
type plannedJob struct {
	*rig
	t         *testing.T
	rng       *rand.Rand
	deletions *tombstone.Set
	log       strings.Builder
}

// TestPlan shows the steps of the job: the order of its work, and the work that it leaves for later. Times are in UTC.
func TestPlan(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		p := newPlannedJob(t)
		defer p.close(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.HasArg("now") {
				p.clock.Store(planTime(t, d, "now"))
			}
			switch d.Cmd {
			case "write":
				p.writeSeries(t, d)
				return p.pending()
			case "damage":
				p.Data = damagedTable{p.Data, store.DayOf(planTime(t, d, "day"))}
				return p.pending()
			case "repair":
				p.Data = p.Data.(damagedTable).Table
				return p.pending()
			case "delete":
				p.delete(t, planTime(t, d, "from"), planTime(t, d, "to"))
				return p.pending()
			case "step":
				return p.step() + p.pending()
			}
			return "unknown command"
		})
	})
}

func newPlannedJob(t *testing.T) *plannedJob {
	p := &plannedJob{t: t, rng: rand.New(rand.NewPCG(1, 2))}
	p.rig = openRig(t, vfs.NewMem(), newClock(firstDay-19), func(o *rigOptions) {
		var err error
		p.deletions, err = tombstone.Open(t.Context(), tombstone.Options{Store: o.Tables})
		require.NoError(t, err)
		o.Tables, o.Deletions = p.deletions.Store(), p.deletions
		o.MarksMax, o.Job.Settle = 2, 5*time.Minute
		o.Logger = slog.New(slog.NewTextHandler(&p.log, &slog.HandlerOptions{
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if slices.Contains([]string{slog.TimeKey, slog.LevelKey, "duration", "samples"}, a.Key) {
					return slog.Attr{}
				}
				return a
			},
		}))
	})
	return p
}

// planTime parses an argument such as 2024-01-30 or 2024-01-30T10:00.
func planTime(t *testing.T, d *datadriven.TestData, key string) (tsMs int64) {
	t.Helper()
	var text string
	d.ScanArgs(t, key, &text)
	at, err := time.Parse("2006-01-02T15:04:05", text+"2024-01-30T00:00:00"[len(text):])
	require.NoError(t, err)
	return at.UnixMilli()
}

// writeSeries writes one sample of each series from 1 to n.
func (p *plannedJob) writeSeries(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	n := 1
	d.MaybeScanArgs(t, "series", &n)
	var muts []storage.RowMutation
	for i := range n {
		muts = append(muts, newSeries(i+1).rows(t, p.rng, map[int64]float64{planTime(t, d, "at"): 1})...)
	}
	require.NoError(t, p.data.Apply(t.Context(), muts))
}

func (p *plannedJob) delete(t *testing.T, fromMs, toMs int64) {
	t.Helper()
	tomb := &tombstone.Tombstone{
		ID: p.deletions.NextID(), Seq: 1 << 20, FromMs: fromMs, ToMs: toMs - 1, MadeMs: p.clock.Load(),
		Selectors: [][]*labels.Matcher{{labels.MustNewMatcher(labels.MatchEqual, "__name__", "m")}},
	}
	require.NoError(t, p.deletions.Add(tomb, func(change func() error) error { return change() }, func() error { return nil }))
	p.deletions.Confirm(tomb.ID)
}

// step does one step and returns the new log lines.
func (p *plannedJob) step() string {
	p.log.Reset()
	worked, err := p.Step(context.Background())
	switch {
	case err != nil:
		return fmt.Sprintf("error: %v\n", err)
	case !worked:
		return "nothing\n"
	}
	return p.log.String()
}

// pending lists the work that is left.
func (p *plannedJob) pending() string {
	record := p.Manifest.View()
	out := fmt.Sprintf("closed: %s", store.DayText(record.Closed))
	for _, day := range slices.Sorted(maps.Keys(record.Days)) {
		out += fmt.Sprintf(", %s %s", store.DayText(day), record.Days[day])
	}
	for _, month := range slices.Sorted(maps.Keys(record.Months)) {
		out += ", " + store.MonthText(month)
	}
	if n := len(p.PendingDeletions()); n > 0 {
		out += fmt.Sprintf(", deletions: %d", n)
	}
	return out + "\n"
}

// damagedTable fails reads that may need cells of a day.
type damagedTable struct {
	storage.Table
	day int64
}

func (d damagedTable) ReadRows(ctx context.Context, set storage.RowSet, opts storage.ReadOptions) storage.RowIter {
	it := d.Table.ReadRows(ctx, set, opts)
	if f := opts.Filter; f.FromMs < (d.day+1)*dayMs && (f.ToMs == 0 || f.ToMs > d.day*dayMs) {
		return damagedRows{it}
	}
	return it
}

type damagedRows struct{ storage.RowIter }

func (damagedRows) Next() bool { return false }
func (damagedRows) Err() error { return storage.ErrCorrupt }

// TestRowsWrittenWhileDaysClose writes the first rows of a day after the job has looked for them and before the day is closed.
// The write waits until the day is closed, and then plans to compute it. The settle time keeps the job from computing the day
// in the same step.
func TestRowsWrittenWhileDaysClose(t *testing.T) {
	r := openRig(t, vfs.NewMem(), newClock(firstDay), func(o *rigOptions) { o.Job.Settle = time.Hour })
	s, rng := newSeries(0), rand.New(rand.NewPCG(1, 2))
	defer r.close(t)
	muts := s.rows(t, rng, map[int64]float64{firstDay*dayMs + 1: 7})
	written, table := make(chan error, 1), r.Data
	r.Data = hookedTable{table, func() {
		r.Data = table
		go func() { written <- r.data.Apply(t.Context(), muts) }()
		select {
		case err := <-written: // the write does not wait
			written <- err
		case <-time.After(20 * time.Millisecond):
		}
	}}
	r.clock.Store((firstDay+1)*dayMs + keyschema.HourMs)
	_, err := r.Step(t.Context())
	require.NoError(t, err)
	require.NoError(t, <-written)
	require.Equal(t, store.WorkWhole, r.Manifest.View().Days[firstDay])
}

// hookedTable calls after at the end of a read.
type hookedTable struct {
	storage.Table
	after func()
}

func (h hookedTable) ReadRows(ctx context.Context, set storage.RowSet, opts storage.ReadOptions) storage.RowIter {
	return hookedRows{h.Table.ReadRows(ctx, set, opts), h.after}
}

type hookedRows struct {
	storage.RowIter
	after func()
}

func (h hookedRows) Close() error {
	defer h.after()
	return h.RowIter.Close()
}

// TestRebuildPlansAllOpenDays rebuilds a day after several days without a run of the job.
func TestRebuildPlansAllOpenDays(t *testing.T) {
	for _, first := range []int64{firstDay + 3, firstDay + 9} {
		r, all, _ := filled(t, 5, nil)
		require.NoError(t, r.Rebuild(t.Context(), first, first))
		known, samples := r.known(t, all[0], store.Hours, 5)
		require.Equal(t, 5*keyschema.DayHours, known)
		require.Equal(t, len(all[0].samples), samples)
		r.close(t)
	}
}
