package ingest

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest/head"
	"halite/ingest/ingesttest"
	"halite/keyschema"
)

// counters has writers that count up over three hours, one series each, and readers that look for gaps.
type counters struct {
	r       *rig
	written []atomic.Int64 // acknowledged numbers of each series
}

func (c *counters) series(w int) labels.Labels {
	return labels.FromStrings("__name__", "c", "w", strconv.Itoa(w))
}

func (c *counters) at(n int) int64 { return startMs - int64(n%3)*keyschema.HourMs + int64(n) }

func (c *counters) write(w, rounds, perRound int) error {
	for round := range rounds {
		var samples []Sample
		for k := range perRound {
			n := round*perRound + k
			samples = append(samples, Sample{Labels: c.series(w), TsMs: c.at(n), Value: float64(n)})
		}
		if result, err := c.r.Write(context.Background(), SamplesInput(samples)); err != nil || result.Accepted != perRound {
			return fmt.Errorf("%+v: %w", result, err)
		}
		c.written[w].Store(int64((round + 1) * perRound))
	}
	return nil
}

// check reads a series. All numbers acknowledged before must be there, each at its time.
func (c *counters) check(w int) error {
	least := int(c.written[w].Load())
	got, err := c.r.read(c.series(w))
	if err != nil {
		return err
	}
	for at, bits := range got {
		if v := math.Float64frombits(bits); c.at(int(v)) != at {
			return fmt.Errorf("%v at %d", v, at)
		}
	}
	for n := range least {
		if _, found := got[c.at(n)]; !found {
			return fmt.Errorf("number %d of %d is missing", n, least)
		}
	}
	return nil
}

// TestReadersMissNothingDuringFlush reads during repeated writes and flushes. Each read must find all numbers
// acknowledged before it began, once and without a gap.
func TestReadersMissNothingDuringFlush(t *testing.T) {
	const writers, rounds, perRound = 3, 60, 25
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), func(o *Options) { o.Head.RowBytesMax = 400 })
	c := &counters{r: r, written: make([]atomic.Int64, writers)}
	var running, helpers sync.WaitGroup
	for w := range writers {
		running.Add(1)
		go func() {
			defer running.Done()
			if err := c.write(w, rounds, perRound); err != nil {
				t.Error(err)
			}
		}()
	}
	done := make(chan struct{})
	untilDone := func(work func(n int) error) {
		defer helpers.Done()
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			default:
			}
			if err := work(n); err != nil {
				t.Error(err)
				return
			}
		}
	}
	helpers.Add(2)
	go untilDone(func(int) error { return r.Flush(context.Background()) })
	go untilDone(func(n int) error { return c.check(n % writers) })
	running.Wait()
	close(done)
	helpers.Wait()
	for w := range writers {
		require.NoError(t, c.check(w))
		require.Equal(t, int64(rounds*perRound), c.written[w].Load())
	}
	r.close()
}

// TestConcurrentRegistrationIsOneSeries lets many writers bring the same new series at once, while the collection removes some.
func TestConcurrentRegistrationIsOneSeries(t *testing.T) {
	const writers, each = 6, 40
	fs := vfs.NewCrashableMem()
	c := ingesttest.NewClock()
	r := openRig(t, fs, c, func(o *Options) { o.Head.IdleAfter = time.Hour })
	ctx := context.Background()
	var running sync.WaitGroup
	for w := range writers {
		running.Add(1)
		go func() {
			defer running.Done()
			for n := range each {
				// Old enough to be removed as soon as it is flushed.
				at := startMs - 5*keyschema.HourMs + int64(w*each+n)
				ls := labels.FromStrings("__name__", "s", "n", strconv.Itoa(n))
				if _, err := r.Write(ctx, SamplesInput([]Sample{{Labels: ls, TsMs: at, Value: float64(w)}})); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	for range 10 {
		require.NoError(t, r.Flush(ctx))
		require.NoError(t, r.collectSeries(ctx))
	}
	running.Wait()
	check := func(r *rig) {
		for n := range each {
			want := column{}
			for w := range writers {
				want[startMs-5*keyschema.HourMs+int64(w*each+n)] = math.Float64bits(float64(w))
			}
			r.requireSeries(labels.FromStrings("__name__", "s", "n", strconv.Itoa(n)), want)
		}
	}
	check(r)
	crashed := openRig(t, fs.CrashClone(vfs.CrashCloneCfg{}), c, nil)
	check(crashed)
	crashed.close()
	r.close()
}

// TestRunNumbersSurviveCrash loads rows as files, which are durable at once, and cuts the power. Later chunks must get
// other sequence numbers.
func TestRunNumbersSurviveCrash(t *testing.T) {
	fs, c := vfs.NewCrashableMem(), ingesttest.NewClock()
	r := openRig(t, fs, c, nil)
	var samples []Sample
	for n := range 1000 {
		ls := labels.FromStrings("__name__", "s", "n", strconv.Itoa(n))
		samples = append(samples, Sample{Labels: ls, TsMs: startMs, Value: 1})
	}
	_, err := r.Write(context.Background(), SamplesInput(samples))
	require.NoError(t, err)
	r.flusher.Lock()
	_, err = r.flusher.FlushRows(context.Background(), func(head.RowInfo) bool { return true })
	r.flusher.Unlock()
	require.NoError(t, err)
	used, err := r.sequence.Allocate(context.Background())
	require.NoError(t, err)
	require.Positive(t, used)
	crashed := openRig(t, fs.CrashClone(vfs.CrashCloneCfg{}), c, nil)
	next, err := crashed.sequence.Allocate(context.Background())
	require.NoError(t, err)
	require.Greater(t, next, used)
	crashed.close()
	r.close()
}
