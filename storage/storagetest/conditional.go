package storagetest

import (
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/storage"
)

func testConditional(t *testing.T, s *suite) {
	b := s.start(t, plainSchema(storage.GCPolicy{MaxAge: time.Hour}))
	check := func(key string, cond storage.Filter, then, otherwise storage.RowMutation, want bool) {
		t.Helper()
		got, err := b.table.CheckAndApply(b.ctx, []byte(key), cond, then, otherwise)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	put := func(q string) storage.RowMutation { return mutation("", setCell("c", q, 1, q)) }
	check("k", storage.Filter{}, put("yes"), put("no"), false)
	b.want(everything(), storage.ReadOptions{}, `"k" c:"no"@1="no"`)
	check("k", storage.Filter{}, put("yes"), put("no2"), true)
	b.want(everything(), storage.ReadOptions{}, `"k" c:"no"@1="no"`, `"k" c:"yes"@1="yes"`)
	check("k", storage.Filter{Families: []string{"a"}}, put("1"), storage.RowMutation{}, false)
	check("k", storage.Filter{QualifierStart: []byte("yes")}, storage.RowMutation{}, put("2"), true)
	check("k", storage.Filter{FromMs: 2}, put("3"), storage.RowMutation{}, false)
	b.want(everything(), storage.ReadOptions{}, `"k" c:"no"@1="no"`, `"k" c:"yes"@1="yes"`)
	b.set("k", "a", "garbage", startMs-2*hourMs, "v")
	check("k", storage.Filter{Families: []string{"a"}}, put("4"), storage.RowMutation{}, false)
	check("k", storage.Filter{}, mutation("k", storage.Entry{Kind: storage.DeleteRow}), storage.RowMutation{}, true)
	b.want(everything(), storage.ReadOptions{})

	bad := []struct {
		key  string
		then storage.RowMutation
		err  error
	}{
		{"", put("x"), storage.ErrBadKey},
		{"k", mutation("other", setCell("c", "q", 1, "v")), storage.ErrBadMutation},
		{"k", mutation("k", setCell("zz", "q", 1, "v")), storage.ErrBadMutation},
	}
	for _, c := range bad {
		_, err := b.table.CheckAndApply(b.ctx, []byte(c.key), storage.Filter{}, c.then, storage.RowMutation{})
		require.ErrorIs(t, err, c.err)
		_, err = b.table.CheckAndApply(b.ctx, []byte(c.key), storage.Filter{}, storage.RowMutation{}, c.then)
		require.ErrorIs(t, err, c.err)
	}
	b.want(everything(), storage.ReadOptions{})
}

// testConcurrency runs writers, readers and checkers on the same rows concurrently.
func testConcurrency(t *testing.T, s *suite) {
	t.Run("check and apply counts every step", func(t *testing.T) {
		b := s.start(t, plainSchema(storage.GCPolicy{}))
		const workers, steps = 4, 25
		b.set("counter", "a", "n", 0, string(make([]byte, 8)))
		inParallel(t, workers, func(int) error {
			for done := 0; done < steps; {
				rows, err := readAll(b.ctx, b.table, keys("counter"), storage.ReadOptions{})
				if err != nil {
					return err
				}
				was := number(rows[0].Cells[0])
				// The qualifier n-<value> exists while the counter has that value.
				next := binary.BigEndian.AppendUint64(nil, uint64(was+1))
				taken := fmt.Sprintf("taken-%d", was)
				matched, err := b.table.CheckAndApply(b.ctx, []byte("counter"),
					storage.Filter{QualifierStart: []byte(taken), QualifierEnd: []byte(taken + "\x00")}, storage.RowMutation{},
					mutation("", setCell("a", "n", 0, string(next)), setCell("a", taken, 0, "")))
				if err != nil {
					return err
				}
				if !matched {
					done++
				}
			}
			return nil
		})
		rows := b.read(keys("counter"), storage.ReadOptions{})
		require.Equal(t, int64(workers*steps), number(rows[0].Cells[0]))
	})
	t.Run("rows are seen whole", func(t *testing.T) { testWholeRows(t, s) })
	t.Run("deletes do not tear writes", func(t *testing.T) { testTearing(t, s) })
}

func testWholeRows(t *testing.T, s *suite) {
	b := s.start(t, plainSchema(storage.GCPolicy{}))
	write := func(v int64) error {
		value := fmt.Sprint(v)
		var muts []storage.RowMutation
		for i := range 5 {
			muts = append(muts, mutation(fmt.Sprintf("row%d", i), setCell("a", "q", 5, value), setCell("b", "q", v*dayMs, value),
				setCell("c", "q", 900*dayMs, value),
				storage.Entry{Kind: storage.DeleteCells, Family: "b", Qualifier: []byte("q"), ToMs: v * dayMs}))
		}
		return b.table.Apply(b.ctx, muts)
	}
	require.NoError(t, write(1))
	versions := int64(400)
	if testing.Short() {
		versions = 60
	}
	stop := make(chan struct{})
	var writers sync.WaitGroup
	writers.Go(func() {
		for v := int64(2); v < versions; v++ {
			if err := write(v); err != nil {
				t.Error(err)
				return
			}
		}
		close(stop)
	})
	inParallel(t, 2, func(worker int) error {
		for {
			select {
			case <-stop:
				return nil
			default:
			}
			rows, err := readAll(b.ctx, b.table, everything(), storage.ReadOptions{Reverse: worker == 1 && !s.caps.NoReverse})
			if err != nil {
				return err
			}
			for _, r := range rows {
				if len(r.Cells) != 3 || string(r.Cells[0].Value) != string(r.Cells[1].Value) ||
					string(r.Cells[1].Value) != string(r.Cells[2].Value) {
					return fmt.Errorf("row is torn: %q", lines([]storage.Row{r}))
				}
			}
		}
	})
	writers.Wait()
}

// testTearing deletes a whole row while another goroutine writes two cells. A reader sees both cells or none.
func testTearing(t *testing.T, s *suite) {
	b := s.start(t, plainSchema(storage.GCPolicy{}))
	inParallel(t, 4, func(worker int) error {
		for i := range 150 {
			m := mutation("k", setCell("a", "q", 1, "v"), setCell("b", "q", 77*dayMs, "v"))
			if worker%2 == 0 {
				m = mutation("k", storage.Entry{Kind: storage.DeleteRow})
			}
			if err := b.table.Apply(b.ctx, []storage.RowMutation{m}); err != nil {
				return err
			}
			rows, err := readAll(b.ctx, b.table, everything(), storage.ReadOptions{})
			if err != nil {
				return err
			}
			if len(rows) > 0 && len(rows[0].Cells) != 2 {
				return fmt.Errorf("step %d: row is torn: %q", i, lines(rows))
			}
		}
		return nil
	})
}

// inParallel runs fn in several goroutines and fails the test on the first error.
func inParallel(t *testing.T, workers int, fn func(worker int) error) {
	t.Helper()
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() { errs[i] = fn(i) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}
