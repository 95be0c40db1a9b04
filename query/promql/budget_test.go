package promql

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestQueriesShareMemory: memory of one query is not there for others until the query ends. The last eighth is for small
// queries.
func TestQueriesShareMemory(t *testing.T) {
	p := &pool{bytesMax: 16 << 20}
	o := &Options{BytesMax: 8 << 20}
	one, two, three := newBudget(o, p), newBudget(o, p), newBudget(o, p)
	require.NoError(t, one.Take(8<<20))
	require.NoError(t, two.Take(6<<20))
	limit := new(LimitError)
	require.ErrorAs(t, one.Take(1), &limit)
	require.Equal(t, LimitError{LimitBytes, 8 << 20}, *limit)
	require.ErrorAs(t, two.Take(1), &limit)
	require.Equal(t, LimitError{LimitTotalBytes, 16 << 20}, *limit)
	require.ErrorContains(t, limit, "(query.max-total-bytes)")
	require.NoError(t, three.Take(1<<20))
	require.Error(t, three.Take(1))

	one.Release(8 << 20)
	require.Error(t, two.Take(1), "the first still runs")
	one.End()
	require.NoError(t, two.Take(2<<20))
	one.End()
	two.End()
	two.Release(8 << 20) // what was handed on is released later
	three.End()
	require.Zero(t, p.bytes.Load())
}

// TestSettledBudgets: a query whose result is left holds no more than the result.
func TestSettledBudgets(t *testing.T) {
	p := &pool{bytesMax: 16 << 20}
	o := &Options{BytesMax: 8 << 20}
	one, two := newBudget(o, p), newBudget(o, p)
	require.NoError(t, one.Take(8<<20))
	require.NoError(t, one.Settle(100))
	require.EqualValues(t, leaseBytes, p.bytes.Load())
	require.NoError(t, two.Take(8<<20))
	limit := new(LimitError)
	require.ErrorAs(t, one.Settle(8<<20), &limit)
	require.Equal(t, LimitTotalBytes, limit.Limit)
	require.ErrorAs(t, one.Settle(9<<20), &limit)
	require.Equal(t, LimitBytes, limit.Limit)
	one.End()
	two.End()
	require.Zero(t, p.bytes.Load())
}

// fakeAnswer gives its memory back when it is ended.
type fakeAnswer struct {
	slow, ended atomic.Bool
	budget      *Budget
}

func (a *fakeAnswer) Slow() bool { return a.slow.Load() }

func (a *fakeAnswer) End() {
	a.ended.Store(true)
	go a.budget.End()
}

// TestSlowAnswersGiveWay: a query without memory ends slow answers, the newest first and no more than necessary.
func TestSlowAnswersGiveWay(t *testing.T) {
	p := &pool{bytesMax: 16 << 20}
	o := &Options{BytesMax: 16 << 20}
	var answers []*fakeAnswer
	for range 7 {
		a := &fakeAnswer{budget: newBudget(o, p)}
		require.NoError(t, a.budget.Take(2<<20))
		a.budget.Sending(a)
		answers = append(answers, a)
	}
	ended := func() (list []int) {
		for i, a := range answers {
			if a.ended.Load() {
				list = append(list, i)
			}
		}
		return list
	}
	b := newBudget(o, p)
	require.Error(t, b.Take(2<<20), "no answer is slow")
	require.Empty(t, ended())
	for _, i := range []int{0, 1, 3, 5} {
		answers[i].slow.Store(true)
	}
	require.NoError(t, newBudget(o, p).Take(1<<20), "small queries end nothing while their share lasts")
	require.Empty(t, ended())
	require.NoError(t, b.Take(2<<20))
	require.Equal(t, []int{3, 5}, ended(), "the small query holds another MiB")
	require.NoError(t, b.Take(3<<20))
	require.Equal(t, []int{1, 3, 5}, ended())
	require.Error(t, b.Take(8<<20), "memory for all that is slow is not enough")
	require.Equal(t, []int{0, 1, 3, 5}, ended())
	require.EqualValues(t, 4, p.ended.Load())
	b.End()
	for _, a := range answers {
		a.budget.End()
	}
	require.Empty(t, p.answers)
	require.EqualValues(t, 1<<20, p.bytes.Load())
}

// TestBudgetsRace has queries take and release side by side; nothing of the pool is lost, nor taken twice.
func TestBudgetsRace(t *testing.T) {
	p := &pool{bytesMax: 64 << 20}
	var queries sync.WaitGroup
	for range 8 {
		queries.Go(func() {
			for range 50 {
				b := newBudget(&Options{BytesMax: math.MaxInt64}, p)
				var readers sync.WaitGroup
				for range 3 {
					readers.Go(func() {
						for range 20 {
							if err := b.Take(700 << 10); err == nil {
								b.Release(300 << 10)
							} else if limit := new(LimitError); !errors.As(err, &limit) || limit.Limit != LimitTotalBytes {
								t.Error(err)
							}
							if n := p.bytes.Load(); n < 0 {
								t.Errorf("%d bytes are taken", n)
							}
						}
					})
				}
				readers.Wait()
				b.End()
			}
		})
	}
	queries.Wait()
	require.Zero(t, p.bytes.Load())
}
