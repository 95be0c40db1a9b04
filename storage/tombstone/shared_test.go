package tombstone_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/storagetest"
	"halite/storage/tombstone"
)

// conditional is a store whose conditional mutations are answered by a function, which may apply them.
type conditional struct {
	storage.Store
	response func(apply func() (bool, error)) (bool, error)
}

func (s *conditional) EnsureTable(ctx context.Context, schema storage.TableSchema) (storage.Table, error) {
	t, err := s.Store.EnsureTable(ctx, schema)
	return &conditionalTable{t, s}, err
}

type conditionalTable struct {
	storage.Table
	s *conditional
}

func (t *conditionalTable) CheckAndApply(
	ctx context.Context, key []byte, cond storage.Filter, then, otherwise storage.RowMutation,
) (bool, error) {
	return t.s.response(func() (bool, error) { return t.Table.CheckAndApply(ctx, key, cond, then, otherwise) })
}

// unreliable loses replies of conditional mutations, before or after they take effect.
func unreliable(store storage.Store, rng *rand.Rand) *conditional {
	var mu sync.Mutex
	return &conditional{store, func(apply func() (bool, error)) (bool, error) {
		mu.Lock()
		n := rng.IntN(4)
		mu.Unlock()
		if n == 0 {
			return false, storage.ErrUnavailable
		}
		matched, err := apply()
		if n == 1 {
			return false, storage.ErrUnavailable
		}
		return matched, err
	}}
}

func openShared(t *testing.T, store storage.Store, changed func(context.Context) error) *tombstone.Set {
	t.Helper()
	set, err := tombstone.Open(t.Context(), tombstone.Options{Store: store, Shared: true, TombstonesMax: 400})
	require.NoError(t, err)
	if changed != nil {
		set.SetChanged(changed)
	}
	return set
}

func deletion() tombstone.Tombstone {
	return tombstone.Tombstone{FromMs: 1, ToMs: 2, Pending: true, MadeMs: 1000,
		Selectors: [][]*labels.Matcher{{eq("__name__", "m")}}}
}

// TestSharedDeletionsAreSeenByAll: processes put tombstones in force, settle and drop them concurrently, over a table that
// loses replies. Each refresh sees all earlier changes, and each tombstone has a unique number.
func TestSharedDeletionsAreSeenByAll(t *testing.T) {
	store := unreliable(storagetest.NewModel(time.Now), rand.New(rand.NewPCG(7, 7)))
	var numbers sync.Mutex
	last := uint32(0)
	number := func(context.Context) (uint32, error) {
		numbers.Lock()
		defer numbers.Unlock()
		last++
		return last, nil
	}
	calls := 0
	sets := []*tombstone.Set{openShared(t, store, nil), openShared(t, store, nil),
		openShared(t, store, func(context.Context) error { calls++; return nil })}
	var work sync.WaitGroup
	for _, set := range sets[:2] {
		work.Go(func() { publishSome(t, set, number) })
	}
	work.Wait()
	require.NoError(t, sets[2].Refresh(t.Context()))
	require.Equal(t, 1, calls, "one call for all changes")
	view := sets[2].View()
	defer view.Release()
	require.GreaterOrEqual(t, view.Len(), 24, "a lost response may double one")
	require.Empty(t, view.Announced())
	require.True(t, view.IsLocked(2, 5))
	require.False(t, view.IsLocked(storage.DayMs, storage.DayMs+5))
	seqs, highest := map[uint32]bool{}, uint32(0)
	for _, made := range view.List() {
		require.False(t, seqs[made.Seq])
		seqs[made.Seq], highest = true, max(highest, made.Seq)
	}
	require.Equal(t, highest, view.Floor())
	gone := view.List()[0].ID
	dropped, err := sets[0].Drop(t.Context(), []uint64{gone})
	require.NoError(t, err)
	require.Zero(t, dropped, "its times are locked")
	later := func() time.Time { return time.Now().Add(tombstone.CleanupLockTTL + time.Minute) }
	took, err := sets[0].LockCleanup(t.Context(), 1, 2, later)
	require.NoError(t, err)
	require.True(t, took.StoleLock)
	require.NoError(t, took.Release(t.Context(), view.List()[1].ID))
	dropped, err = sets[0].Drop(t.Context(), []uint64{gone})
	require.NoError(t, err)
	require.Equal(t, 1, dropped)
	require.NoError(t, sets[1].Refresh(t.Context()))
	require.Nil(t, sets[1].Find(gone))
	require.False(t, sets[1].Find(view.List()[1].ID).Pending)
	again := openShared(t, store, nil)
	require.Equal(t, view.Len()-1, again.Len())
	var all []uint64
	for _, made := range view.List()[1:] {
		all = append(all, made.ID)
	}
	dropped, err = again.Drop(t.Context(), all)
	require.NoError(t, err)
	require.Len(t, all, dropped)
	empty := openShared(t, store, nil).View()
	require.Zero(t, empty.Len())
	require.Equal(t, highest, empty.Floor(), "the number outlives the tombstones")
	empty.Release()
}

// publishSome puts tombstones in force and locks their times. It releases every other lock; the owners of the others die.
func publishSome(t *testing.T, set *tombstone.Set, number func(context.Context) (uint32, error)) {
	for range 12 {
		made, err := set.Publish(t.Context(), deletion(), number)
		if err != nil {
			t.Errorf("publish: %v", err)
			return
		}
		if set.Find(made.ID) == nil {
			t.Errorf("tombstone %d is not seen where it was made", made.ID)
		}
		lock, err := set.LockCleanup(t.Context(), made.FromMs, made.ToMs, time.Now)
		if err != nil {
			t.Errorf("lock: %v", err)
			return
		}
		if made.ID%2 == 0 {
			continue
		}
		if err := lock.Release(t.Context(), made.ID); err != nil {
			t.Errorf("release: %v", err)
		}
	}
}

// TestSharedDeletionIsAnnounced: other processes see a deletion while it gets its number, and may abandon it if that takes
// long.
func TestSharedDeletionIsAnnounced(t *testing.T) {
	store := storagetest.NewModel(time.Now)
	a, b := openShared(t, store, nil), openShared(t, store, nil)
	announced := func() []int64 {
		require.NoError(t, b.Refresh(t.Context()))
		view := b.View()
		defer view.Release()
		require.Zero(t, view.Len())
		return view.Announced()
	}
	_, err := a.Publish(t.Context(), deletion(), func(ctx context.Context) (uint32, error) {
		require.Equal(t, []int64{1000}, announced())
		require.NoError(t, b.GiveUp(ctx, 1000))
		require.Len(t, announced(), 1, "not that old")
		require.NoError(t, b.GiveUp(ctx, 1001))
		require.Empty(t, announced())
		return 5, nil
	})
	require.ErrorIs(t, err, tombstone.ErrOvertaken)
	cancelled := func(context.Context) (uint32, error) { return 0, context.Canceled }
	_, err = a.Publish(t.Context(), deletion(), cancelled)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, announced(), "taken back")
}

// TestCleanupLock: all processes see a lock. Others may steal a lock that its owner does not renew, and the owner then fails.
func TestCleanupLock(t *testing.T) {
	const day = storage.DayMs
	store := storagetest.NewModel(time.Now)
	a, b := openShared(t, store, nil), openShared(t, store, nil)
	at := time.UnixMilli(1_700_000_000_000)
	now := func() time.Time { return at }
	seen := func() (locked, old bool) {
		require.NoError(t, b.Refresh(t.Context()))
		view := b.View()
		defer view.Release()
		_, _, old = view.ExpiredLock(now())
		return view.IsLocked(2*day, 3*day), old
	}
	first, err := a.LockCleanup(t.Context(), day, 2*day, now)
	require.NoError(t, err)
	require.False(t, first.StoleLock)
	locked, old := seen()
	require.True(t, locked)
	require.False(t, old)

	at = at.Add(tombstone.CleanupLockTTL - time.Second)
	require.NoError(t, first.Check(t.Context()), "renews it")
	at = at.Add(tombstone.CleanupLockTTL - time.Second)
	elsewhere, err := b.LockCleanup(t.Context(), 3*day, 4*day, now)
	require.NoError(t, err)
	other, err := b.LockCleanup(t.Context(), day+1, day+1, now)
	require.NoError(t, err)
	require.False(t, other.StoleLock, "it is not old")
	require.NoError(t, other.Release(t.Context()))
	require.NoError(t, first.Check(t.Context()))

	at = at.Add(tombstone.CleanupLockTTL + time.Second)
	require.NoError(t, elsewhere.Release(t.Context()))
	_, old = seen()
	require.True(t, old)
	second, err := b.LockCleanup(t.Context(), day+1, day+1, now)
	require.NoError(t, err)
	require.True(t, second.StoleLock)
	fromMs, toMs := second.Span()
	require.Equal(t, []int64{day, 3*day - 1}, []int64{fromMs, toMs})
	require.ErrorIs(t, first.Check(t.Context()), tombstone.ErrOvertaken)
	require.ErrorIs(t, first.Release(t.Context()), tombstone.ErrOvertaken)
	locked, old = seen()
	require.True(t, locked)
	require.False(t, old)
	require.NoError(t, second.Release(t.Context()))
	locked, _ = seen()
	require.False(t, locked)
}

// overtaken loses the reply of a conditional mutation once, if next is set, and runs next before it reports the loss.
func overtaken(store storage.Store, next *func()) *conditional {
	return &conditional{store, func(apply func() (bool, error)) (bool, error) {
		matched, err := apply()
		if run := *next; run != nil && err == nil && !matched {
			*next = nil
			run()
			return false, storage.ErrUnavailable
		}
		return matched, err
	}}
}

// TestLostResponses: a change that took effect succeeds, even if its reply was lost and others have changed the row.
func TestLostResponses(t *testing.T) {
	model := storagetest.NewModel(time.Now)
	var then func()
	set, other := openShared(t, overtaken(model, &then), nil), openShared(t, model, nil)
	at := time.UnixMilli(1_700_000_000_000)
	now := func() time.Time { return at }
	lose := func() {
		then = func() {
			far, err := other.LockCleanup(t.Context(), 9*storage.DayMs, 9*storage.DayMs, now)
			require.NoError(t, err)
			require.NoError(t, far.Release(t.Context()))
		}
	}
	made, err := set.Publish(t.Context(), deletion(), func(context.Context) (uint32, error) {
		lose() // of the mutation that puts it in force
		return 7, nil
	})
	require.NoError(t, err)
	require.Nil(t, then)
	require.NotNil(t, set.Find(made.ID))
	require.Equal(t, 1, set.Len())
	lose()
	lock, err := set.LockCleanup(t.Context(), 1, 1, now)
	require.NoError(t, err)
	require.Nil(t, then)
	require.NoError(t, lock.Check(t.Context()))

	at = at.Add(tombstone.CleanupLockTTL + time.Second)
	lose()
	took, err := set.LockCleanup(t.Context(), 1, 1, now)
	require.NoError(t, err)
	require.Nil(t, then)
	require.True(t, took.StoleLock)
	lose()
	require.NoError(t, took.Release(t.Context(), made.ID))
	require.Nil(t, then)
	require.False(t, set.Find(made.ID).Pending)
	lose()
	dropped, err := set.Drop(t.Context(), []uint64{made.ID})
	require.NoError(t, err)
	require.Nil(t, then)
	require.Equal(t, 1, dropped)
	require.Zero(t, set.Len())
}
