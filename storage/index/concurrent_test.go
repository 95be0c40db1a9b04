package index

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage/index/memory"
	"halite/storage/index/segment"
)

// TestConcurrent adds and touches series in several goroutines while others look up, persist, compact, retire and move the
// clock. A writer finds its series immediately after the touch, and at the end all goroutines find them.
func TestConcurrent(t *testing.T) {
	w := newWorld(t, 1)
	w.layout = segment.DefaultLayout()
	w.reopen()
	const writers, series = 3, 250
	var wg, background sync.WaitGroup
	stop := make(chan struct{})
	errs := make(chan error, 100)
	for n := range writers {
		wg.Go(func() { errs <- writeSeries(w, n, series) })
	}
	loop := func(fn func() error) {
		background.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := fn(); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	ctx := context.Background()
	loop(func() error { return w.x.Persist(ctx) })
	loop(func() error {
		w.advance(20 * time.Minute)
		time.Sleep(time.Millisecond)
		return w.x.Maintain(ctx)
	})
	loop(func() error {
		// Half of the series may be retired a day after their last touch, when no writer uses them.
		for _, ref := range w.x.Retire(w.x.Idle(w.hourNow()-24), w.hourNow()-24, func(ref memory.Ref) bool { return ref%2 == 0 }) {
			if ref%2 == 0 {
				return fmt.Errorf("busy series %d was retired", ref)
			}
		}
		return nil
	})
	loop(func() error {
		if _, err := w.x.LabelNames(ctx, 0, 1<<60, 0); err != nil {
			return err
		}
		_ = w.x.Stats(3)
		values, err := w.x.LabelValues(ctx, "n", 0, 1<<60, 0)
		for i := 1; i < len(values) && err == nil; i++ {
			if values[i-1] >= values[i] {
				err = fmt.Errorf("values %q and %q are not in order", values[i-1], values[i])
			}
		}
		return err
	})
	wg.Wait()
	close(stop)
	background.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	got, err := w.x.Select(ctx, nil, 0, 1<<60)
	require.NoError(t, err)
	require.Len(t, got, writers*series)
	w.reopen()
	require.NoError(t, w.x.Persist(ctx))
}

func writeSeries(w *world, writer, count int) error {
	x := w.x
	for i := range count {
		n := fmt.Sprint(i)
		ls := labels.FromStrings(model.MetricNameLabel, fmt.Sprint("m", i%7), "n", n, "writer", fmt.Sprint(writer))
		hour := w.hourNow()
		for range 3 { // a late one, one now, one ahead
			ref, _, err := x.Add(ls)
			if err != nil {
				return err
			}
			x.MarkActive(ref, hour)
			if key := string(x.AppendRowKey(nil, ref, hour)); key == "" {
				return fmt.Errorf("no row key for %s", ls)
			}
			mint := keyschema.HourStartMs(hour)
			got, err := x.Select(context.Background(), nil, mint, mint,
				labels.MustNewMatcher(labels.MatchEqual, "n", n),
				labels.MustNewMatcher(labels.MatchRegexp, "writer", fmt.Sprint(writer)))
			if err != nil {
				return err
			}
			if len(got) != 1 || !labels.Equal(got[0].Labels, ls) {
				return fmt.Errorf("%s was touched in hour %d, found %v", ls, hour, got)
			}
			hour = w.hourNow() + int64(i%5) - 30
		}
	}
	return nil
}
