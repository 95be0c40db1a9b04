package query_test

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/keyschema"
	"halite/query"
	"halite/query/rowcache"
	"halite/storage"
)

// TestNewestRow checks that a query finds samples in the head alone, in the tables alone and in both. Some rows of the hour
// exist when the database is opened, others are written later.
func TestNewestRow(t *testing.T) {
	t.Parallel()
	clock, fs := new(atomic.Int64), vfs.NewMem()
	firstHour := int64(dataFrom / hourMs)
	clock.Store(dataFrom + hourMs + hourMs/2)
	open := func() *stack { return openStackWith(t, fs, stackOptions{clock: clock}) }
	write := func(s *stack, tsMs int64, value float64) {
		s.write([]ingest.Sample{{Labels: labels.FromStrings("__name__", "m", "a", "b"), TsMs: tsMs, Value: value}})
	}
	requireSum := func(s *stack, want float64) {
		e := newQueryEngine(t, s.withRowCache(0), query.On)
		res, err := e.Instant(context.Background(), query.InstantRequest{
			Query: "sum(sum_over_time(m[2h]))", TimeMs: dataFrom + 2*hourMs - 1,
		})
		require.NoError(t, err)
		defer res.Close()
		require.Equal(t, fmt.Sprintf("{} => %v @[%d]", want, dataFrom+2*hourMs-1), res.Value.String())
	}

	s := open()
	require.Less(t, s.watch.NewestRow(), firstHour, "the store is empty")
	write(s, dataFrom+1, 1)
	requireSum(s, 1)
	s.flush()
	require.Equal(t, firstHour, s.watch.NewestRow())
	requireSum(s, 1)
	write(s, dataFrom+2, 10)
	write(s, dataFrom+hourMs, 100)
	requireSum(s, 111)
	s.flush()
	require.Equal(t, firstHour+1, s.watch.NewestRow())
	requireSum(s, 111)
	require.NoError(t, s.Close())

	s = open()
	day := firstHour / keyschema.DayHours * keyschema.DayHours
	require.Equal(t, day+keyschema.DayHours-1, s.watch.NewestRow(), "the store has rows of today")
	write(s, dataFrom+3, 1000)
	requireSum(s, 1111)
	require.NoError(t, s.Close())

	clock.Add(dayMs)
	s = open()
	require.Equal(t, day+keyschema.DayHours-1, s.watch.NewestRow(), "the store has rows of yesterday")
	requireSum(s, 1111)
	require.NoError(t, s.Close())

	clock.Add(-2 * dayMs)
	s = open()
	require.Equal(t, int64(math.MaxInt64), s.watch.NewestRow(), "the store has rows of tomorrow")
	require.NoError(t, s.Close())
}

// TestNewestRowOfOtherWrites checks that a write to unknown hours invalidates the newest row.
func TestNewestRowOfOtherWrites(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	defer func() { require.NoError(t, s.Close()) }()
	require.NotEqual(t, int64(math.MaxInt64), s.watch.NewestRow())
	data, err := s.store.Table(context.Background(), storage.TableData)
	require.NoError(t, err)
	_, _ = data.CheckAndApply(context.Background(), []byte("m"), storage.Filter{}, storage.RowMutation{}, storage.RowMutation{})
	require.Equal(t, int64(math.MaxInt64), s.watch.NewestRow())
	require.Equal(t, int64(math.MaxInt64), rowcache.NewWatch().NewestRow(), "nothing is known before a search")
}
