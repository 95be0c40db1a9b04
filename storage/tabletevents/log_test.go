package tabletevents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/storagetest"
)

// rig is table meta with a clock.
type rig struct {
	meta storage.Table
	now  time.Time
}

func newRig(t *testing.T) *rig {
	r := &rig{now: time.Unix(1_763_000_000, 0)}
	store := storagetest.NewModel(func() time.Time { return r.now })
	var err error
	r.meta, err = store.EnsureTable(t.Context(), storage.MetaSchema())
	require.NoError(t, err)
	return r
}

func (r *rig) open(t *testing.T, server string, o Options) *Log {
	t.Helper()
	o.Now = func() time.Time { return r.now }
	l, err := New(o)
	require.NoError(t, err)
	require.NoError(t, l.Open(t.Context(), r.meta, server))
	return l
}

func keys(t *testing.T, l *Log) (out []string) {
	t.Helper()
	events, err := l.List(t.Context(), 0, 1<<60)
	require.NoError(t, err)
	for _, e := range events {
		out = append(out, e.Kind+" "+string(e.Key))
	}
	return out
}

func split(key string) storage.TabletChange {
	return storage.TabletChange{Kind: storage.TabletSplit, Table: "data", Key: []byte(key), Reason: "large"}
}

// TestRestart: a new process has the events, in time order and within the bounds of a request.
func TestRestart(t *testing.T) {
	r := newRig(t)
	l, err := New(Options{Now: func() time.Time { return r.now }})
	require.NoError(t, err)
	l.Add(split("before the store is open"))
	require.NoError(t, l.Save(t.Context()), "there is no table yet")
	require.NoError(t, l.Open(t.Context(), r.meta, "a"))
	r.now = r.now.Add(time.Second)
	l.Add(split("k\xff"))
	require.NoError(t, l.Save(t.Context()))
	l = r.open(t, "a", Options{})
	require.Equal(t, []string{"split before the store is open", "split k\xff"}, keys(t, l))
	events, err := l.List(t.Context(), r.now.UnixMilli(), r.now.UnixMilli()+1)
	require.NoError(t, err)
	require.Equal(t, []Event{{r.now.UnixMilli(), "split", "data", []byte("k\xff"), "large"}}, events)
	require.Empty(t, keys(t, r.open(t, "b", Options{})), "another server has its own")
	require.Empty(t, keys(t, nil))
}

// TestBounds: number, age and size of the events are bounded.
func TestBounds(t *testing.T) {
	r := newRig(t)
	l := r.open(t, "a", Options{EventsMax: 3, Age: time.Hour})
	for n := range 5 {
		l.Add(split(fmt.Sprint(n)))
		r.now = r.now.Add(time.Minute)
	}
	require.Equal(t, []string{"split 2", "split 3", "split 4"}, keys(t, l))
	r.now = r.now.Add(58*time.Minute + time.Second)
	require.Equal(t, []string{"split 4"}, keys(t, l))
	full := r.open(t, "b", Options{})
	for range 2 * EventsMaxDefault {
		full.Add(split(strings.Repeat("\xff", storage.KeyBytesMax)))
	}
	require.NoError(t, full.Save(t.Context()), "the largest history fits into its cell")
	_, err := New(Options{EventsMax: -1})
	require.Error(t, err)
}

// TestShared: servers with the same tables see all events. The row of a server that ended long ago is deleted.
func TestShared(t *testing.T) {
	r := newRig(t)
	a, b := r.open(t, "a", Options{Shared: true}), r.open(t, "b", Options{Shared: true})
	a.Add(split("a"))
	require.NoError(t, a.Save(t.Context()))
	b.Add(split("b"))
	require.Equal(t, []string{"split b", "split a"}, keys(t, b))
	r.now = r.now.Add(AgeDefault + time.Second)
	require.Empty(t, keys(t, b))
	_, err := cellOf("a").Read(t.Context(), r.meta, &[]Event{})
	require.NoError(t, err)
	found, err := cellOf("a").Read(t.Context(), r.meta, &[]Event{})
	require.NoError(t, err)
	require.False(t, found)
}

// TestCompare finds the changes of a storage service. The first list is the base.
func TestCompare(t *testing.T) {
	r := newRig(t)
	l := r.open(t, "a", Options{})
	list := func(starts ...string) (out []storage.Tablet) {
		for _, s := range starts {
			out = append(out, storage.Tablet{Range: storage.RowRange{Start: []byte(s)}})
		}
		return out
	}
	l.Compare("data", list("", "m"))
	require.Empty(t, keys(t, l))
	l.Compare("other", list("x"))
	l.Compare("data", list("", "c", "m"))
	l.Compare("data", list("", "c", "m"))
	l.Compare("data", list("", "c"))
	require.Equal(t, []string{"split c", "merge m"}, keys(t, l))
}

// failing is a table whose writes fail.
type failing struct {
	storage.Table
	err error
}

func (f *failing) Apply(ctx context.Context, muts []storage.RowMutation) error {
	if f.err != nil {
		return f.err
	}
	return f.Table.Apply(ctx, muts)
}

// TestFailedSave: the next save has the events.
func TestFailedSave(t *testing.T) {
	r := newRig(t)
	table := &failing{r.meta, errors.New("disk on fire")}
	r.meta = table
	l := r.open(t, "a", Options{})
	l.Add(split("k"))
	require.ErrorIs(t, l.Save(t.Context()), table.err)
	table.err = nil
	require.NoError(t, l.Save(t.Context()))
	require.Equal(t, []string{"split k"}, keys(t, r.open(t, "a", Options{})))
	require.NoError(t, r.meta.Apply(t.Context(), []storage.RowMutation{{Key: []byte(rowPrefix + "z"), Entries: []storage.Entry{{
		Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: []byte("events"), Value: []byte("{"),
	}}}}))
	bad, err := New(Options{})
	require.NoError(t, err)
	require.ErrorIs(t, bad.Open(t.Context(), r.meta, "z"), storage.ErrCorrupt)
}
