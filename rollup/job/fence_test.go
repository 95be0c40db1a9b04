package job

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/rollup"
	"halite/rollup/store"
	"halite/storage"
	"halite/storage/storagetest"
	"halite/storage/tombstone"
)

// slowStore calls once before the next write to the table of states.
type slowStore struct {
	storage.Store
	once func()
}

func (s *slowStore) EnsureTable(ctx context.Context, schema storage.TableSchema) (storage.Table, error) {
	t, err := s.Store.EnsureTable(ctx, schema)
	return slowTable{t, s}, err
}

type slowTable struct {
	storage.Table
	s *slowStore
}

func (t slowTable) Apply(ctx context.Context, muts []storage.RowMutation) error {
	if do := t.s.once; do != nil && t.Schema().Name == storage.TableRollup {
		t.s.once = nil
		do()
	}
	return t.Table.Apply(ctx, muts)
}

// process is one process of several that share tables.
type process struct {
	*Rollups
	set   *tombstone.Set
	store *slowStore
	data  storage.Table // writes invalidate states
	fresh bool          // it sees deletions of other processes
}

func newProcess(t *testing.T, tables storage.Store, now func() time.Time) *process {
	p := &process{store: &slowStore{Store: tables}, fresh: true}
	var err error
	p.set, err = tombstone.Open(t.Context(), tombstone.Options{Store: p.store, Shared: true})
	require.NoError(t, err)
	p.Rollups, err = Open(t.Context(), store.Options{Tables: p.set.Store(), Deletions: p.set, Now: now,
		Shared: &store.Shared{HoldsLease: func() bool { return true }, Margin: 15 * time.Minute, Tick: now,
			Fresh: func(ctx context.Context) error {
				if !p.fresh {
					return nil
				}
				return p.set.Refresh(ctx)
			}}}, Options{Share: 1, Settle: -1})
	require.NoError(t, err)
	p.data, err = p.Invalidating(p.set.Store()).EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	return p
}

func (p *process) work(t *testing.T) {
	t.Helper()
	for worked := true; worked; {
		var err error
		worked, err = p.Step(t.Context())
		require.NoError(t, err)
	}
}

// write writes a sample of the first series in the first hour.
func (p *process) write(t *testing.T, minute uint32, value float64) {
	t.Helper()
	hour := int64(firstDay * keyschema.DayHours)
	require.NoError(t, p.data.Apply(t.Context(), []storage.RowMutation{{
		Key: keyschema.AppendHour(sharedPrefix(0), hour), Entries: []storage.Entry{{
			Kind: storage.SetCell, Family: storage.FamilySamples, TsMs: keyschema.HourCellMs(hour),
			Qualifier: keyschema.AppendSampleQualifier(nil, minute*60_000), Value: chunk.AppendSampleValue(nil, value),
		}}}}))
}

// state reads the state of the first hour.
func (p *process) state(t *testing.T) (s rollup.State, known bool) {
	t.Helper()
	require.NoError(t, p.set.Refresh(t.Context()))
	require.NoError(t, p.Refresh(t.Context()))
	hour := int64(firstDay * keyschema.DayHours)
	require.NoError(t, p.Read(t.Context(), store.Request{Prefixes: [][]byte{sharedPrefix(0)}, From: hour, To: hour,
		Fields: rollup.FieldsAll}, func(_ int, c *rollup.Columns) error {
		s, known = c.State(0), c.Known[0]
		return nil
	}))
	return s, known
}

// TestSuspendedProcessIsFenced suspends a process during a write of states that do not reflect a deletion. Another process
// takes over. It waits until the write must have ended, and then recomputes the written states. Only after that may the
// deletion be removed. Further writes of the suspended process fail.
func TestSuspendedProcessIsFenced(t *testing.T) {
	clock := newClock(firstDay + 2)
	now := func() time.Time { return time.UnixMilli(clock.Load()) }
	tables := storagetest.NewModel(now)
	a, b := newProcess(t, tables, now), newProcess(t, tables, now)
	a.write(t, 1, 1)
	a.write(t, 2, 100)
	clock.Add(time.Hour.Milliseconds())
	a.work(t)

	from := int64(firstDay*dayMs) + 2*60_000
	made, err := b.set.Publish(t.Context(), tombstone.Tombstone{
		FromMs: from, ToMs: from, MadeMs: clock.Load(),
		Selectors: [][]*labels.Matcher{{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "m")}},
	}, func(context.Context) (uint32, error) { return 10, nil })
	require.NoError(t, err)
	applied := func() uint64 {
		id, err := b.DeletionHorizon(t.Context())
		require.NoError(t, err)
		return id
	}
	require.Zero(t, applied())
	_, known := b.state(t)
	require.False(t, known, "the state may contain the deleted sample")

	a.write(t, 3, 7) // a late sample, so that there is something to compute
	clock.Add(time.Hour.Milliseconds())
	a.fresh = false // the process has not seen the deletion when it is suspended
	suspended := false
	a.store.once = func() {
		suspended = true
		_, err := b.Step(t.Context())
		require.NoError(t, err)
		require.NoError(t, b.ApplyDeletions(t.Context()))
		require.Zero(t, applied(), "the write of the suspended process is still to come")
		clock.Add(2 * time.Minute.Milliseconds())
	}
	_, err = a.Step(t.Context())
	require.ErrorIs(t, err, store.ErrOvertaken)
	require.True(t, suspended)
	_, known = b.state(t)
	require.False(t, known, "the suspended process has written a state with the deleted sample")

	clock.Add(4 * time.Minute.Milliseconds())
	require.NoError(t, b.ApplyDeletions(t.Context()))
	require.Equal(t, made.ID, applied())
	data, err := tables.Table(t.Context(), storage.TableData)
	require.NoError(t, err)
	hour := int64(firstDay * keyschema.DayHours)
	require.NoError(t, data.Apply(t.Context(), []storage.RowMutation{{ // remove the sample, as a cleaner does
		Key: keyschema.AppendHour(sharedPrefix(0), hour), Entries: []storage.Entry{{Kind: storage.DeleteCells,
			Family: storage.FamilySamples, Qualifier: keyschema.AppendSampleQualifier(nil, 2*60_000)}}}}))
	dropped, err := b.set.Drop(t.Context(), []uint64{made.ID})
	require.NoError(t, err)
	require.Equal(t, 1, dropped)
	b.work(t)
	s, known := b.state(t)
	require.True(t, known)
	require.Equal(t, 7.0, s.Max)

	// Another pass of the suspended process, which began before the deletion.
	batch := newBatch(a.Job, 1)
	key := keyschema.AppendMonthKey(nil, sharedPrefix(0), store.MonthOfDay(firstDay))
	batch.begun, batch.writes = now(), []storage.RowMutation{{Key: key}}
	require.ErrorIs(t, batch.flush(t.Context()), store.ErrOvertaken)
}
