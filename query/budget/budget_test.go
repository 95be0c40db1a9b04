package budget

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestQueriesShareMemory: other queries cannot use the memory of a query until it ends. The last eighth is for small
// queries.
func TestQueriesShareMemory(t *testing.T) {
	p := &Pool{bytesMax: 16 << 20}
	o := Limits{BytesMax: 8 << 20}
	one, two, three := New(o, p), New(o, p), New(o, p)
	require.NoError(t, one.Reserve(8<<20))
	require.NoError(t, two.Reserve(6<<20))
	limit := new(LimitError)
	require.ErrorAs(t, one.Reserve(1), &limit)
	require.Equal(t, LimitError{Bytes, 8 << 20}, *limit)
	require.ErrorAs(t, two.Reserve(1), &limit)
	require.Equal(t, LimitError{PoolBytes, 16 << 20}, *limit)
	require.ErrorContains(t, limit, "(query.max-total-bytes)")
	require.NoError(t, three.Reserve(1<<20))
	require.Error(t, three.Reserve(1))

	one.Release(8 << 20)
	require.Error(t, two.Reserve(1), "the first still runs")
	one.Close()
	require.NoError(t, two.Reserve(2<<20))
	one.Close()
	two.Close()
	two.Release(8 << 20) // the next holder of the memory releases it
	three.Close()
	require.Zero(t, p.bytes.Load())
}

// TestSettledBudgets: after Reset, a query leases only the memory of its result.
func TestSettledBudgets(t *testing.T) {
	p := &Pool{bytesMax: 16 << 20}
	o := Limits{BytesMax: 8 << 20}
	one, two := New(o, p), New(o, p)
	require.NoError(t, one.Reserve(8<<20))
	require.NoError(t, one.Reset(100))
	require.EqualValues(t, leaseBytes, p.bytes.Load())
	require.NoError(t, two.Reserve(8<<20))
	limit := new(LimitError)
	require.ErrorAs(t, one.Reset(8<<20), &limit)
	require.Equal(t, PoolBytes, limit.Resource)
	require.ErrorAs(t, one.Reset(9<<20), &limit)
	require.Equal(t, Bytes, limit.Resource)
	one.Close()
	two.Close()
	require.Zero(t, p.bytes.Load())
}

// fakeResponse closes its budget when End is called.
type fakeResponse struct {
	slow, ended atomic.Bool
	budget      *Budget
}

func (a *fakeResponse) Slow() bool { return a.slow.Load() }

func (a *fakeResponse) End() {
	a.ended.Store(true)
	go a.budget.Close()
}

// TestSlowResponsesGiveWay: a query without memory ends slow responses, the newest first and no more than necessary.
func TestSlowResponsesGiveWay(t *testing.T) {
	p := &Pool{bytesMax: 16 << 20}
	o := Limits{BytesMax: 16 << 20}
	var responses []*fakeResponse
	for range 7 {
		a := &fakeResponse{budget: New(o, p)}
		require.NoError(t, a.budget.Reserve(2<<20))
		a.budget.StartSending(a)
		responses = append(responses, a)
	}
	ended := func() (list []int) {
		for i, a := range responses {
			if a.ended.Load() {
				list = append(list, i)
			}
		}
		return list
	}
	b := New(o, p)
	require.Error(t, b.Reserve(2<<20), "no response is slow")
	require.Empty(t, ended())
	for _, i := range []int{0, 1, 3, 5} {
		responses[i].slow.Store(true)
	}
	require.NoError(t, New(o, p).Reserve(1<<20), "small queries end nothing while their share lasts")
	require.Empty(t, ended())
	require.NoError(t, b.Reserve(2<<20))
	require.Equal(t, []int{3, 5}, ended(), "the small query holds another MiB")
	require.NoError(t, b.Reserve(3<<20))
	require.Equal(t, []int{1, 3, 5}, ended())
	require.Error(t, b.Reserve(8<<20), "memory for all that is slow is not enough")
	require.Equal(t, []int{0, 1, 3, 5}, ended())
	require.EqualValues(t, 4, p.ended.Load())
	b.Close()
	for _, a := range responses {
		a.budget.Close()
	}
	require.Empty(t, p.responses)
	require.EqualValues(t, 1<<20, p.bytes.Load())
}

// TestBudgetsRace lets queries lease and release memory concurrently. The pool loses no memory and leases none twice.
func TestBudgetsRace(t *testing.T) {
	p := &Pool{bytesMax: 64 << 20}
	var queries sync.WaitGroup
	for range 8 {
		queries.Go(func() {
			for range 50 {
				b := New(Limits{BytesMax: math.MaxInt64}, p)
				var readers sync.WaitGroup
				for range 3 {
					readers.Go(func() {
						for range 20 {
							if err := b.Reserve(700 << 10); err == nil {
								b.Release(300 << 10)
							} else if limit := new(LimitError); !errors.As(err, &limit) || limit.Resource != PoolBytes {
								t.Error(err)
							}
							if n := p.bytes.Load(); n < 0 {
								t.Errorf("%d bytes are taken", n)
							}
						}
					})
				}
				readers.Wait()
				b.Close()
			}
		})
	}
	queries.Wait()
	require.Zero(t, p.bytes.Load())
}
