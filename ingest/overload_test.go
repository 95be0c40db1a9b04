package ingest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"halite/ingest/ingesttest"
)

// flood has senders that write as fast as they can, each to its own series. It records the acknowledged samples.
type flood struct {
	r        *rig
	acked    []column // by sender
	accepted atomic.Int64
	refused  atomic.Int64
	most     atomic.Int64 // bytes of the head
}

func (f *flood) names(sender int) []string {
	return []string{"__name__", "f", "sender", fmt.Sprint(sender)}
}

// send writes a request of 200 samples until the server accepts it or ctx ends. It retries far sooner than Retry-After says.
func (f *flood) send(ctx context.Context, sender, k int) error {
	ts := series(f.names(sender))
	for n := k * 200; n < (k+1)*200; n++ {
		ts.Samples = append(ts.Samples, sample(startMs+int64(n), math.Sqrt(float64(n*(sender+1)+1))))
	}
	encoded := body(f.r.t, &prompb.WriteRequest{Timeseries: []prompb.TimeSeries{ts}})
	for {
		result, err := f.r.Write(ctx, Input{Body: encoded})
		f.most.Store(max(f.most.Load(), f.r.head.Bytes()))
		var overload *OverloadError
		switch {
		case err == nil && result.Accepted == len(ts.Samples):
			f.accepted.Add(1)
			for _, s := range ts.Samples {
				f.acked[sender][s.Timestamp] = math.Float64bits(s.Value)
			}
			return nil
		case ctx.Err() != nil:
			return nil
		case !errors.As(err, &overload):
			return fmt.Errorf("%+v: %w", result, err)
		case overload.RetryAfter < time.Second:
			return fmt.Errorf("come back in %s", overload.RetryAfter)
		}
		f.refused.Add(1)
		time.Sleep(time.Millisecond)
	}
}

// TestFloodIsSurvived has more senders than the limits allow, and less memory and log than they fill. The server
// refuses some writes, memory stays bounded, and no acknowledged sample is lost, also after a restart. After the flood
// the server accepts every write again by itself.
func TestFloodIsSurvived(t *testing.T) {
	const senders, headBytes = 16, 96 << 10
	fs := vfs.NewMem()
	tweak := func(o *Options) {
		o.Limits.ConcurrencyMax, o.Limits.QueueWaitMax, o.Limits.InFlightBytesMax = 2, time.Millisecond, 20<<10
		o.Head = HeadOptions{
			Stripes: 4, BytesMax: headBytes, RowBytesMax: 16 << 10, FlushInterval: 5 * time.Millisecond,
			CheckpointInterval: 20 * time.Millisecond,
		}
		o.WALSegmentBytesMax, o.WALBytesMax, o.WALCommitDelay = 64<<10, 512<<10, 0
	}
	f := &flood{r: openRig(t, fs, ingesttest.NewClock(), tweak)}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	failed := make(chan error, senders)
	for range senders {
		f.acked = append(f.acked, column{})
	}
	for sender := range senders {
		done.Go(func() {
			for k := 0; ctx.Err() == nil; k++ {
				if err := f.send(ctx, sender, k); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	require.Eventually(t, func() bool {
		return len(failed) > 0 || f.accepted.Load() > 500 && f.refused.Load() > 100 &&
			f.r.counter("tsdb_ingest_checkpoints_total", "", "") > 2
	}, time.Minute, time.Millisecond)
	cancel()
	done.Wait()
	require.Empty(t, failed)
	// Admitted requests may exceed the limit by the requests that ran already: two.
	require.Less(t, f.most.Load(), int64(headBytes+headBytes/4+2*200*20))
	require.Eventually(t, func() bool {
		after := Sample{Labels: labels.FromStrings("__name__", "after"), TsMs: startMs}
		_, err := f.r.Write(context.Background(), SamplesInput([]Sample{after}))
		return err == nil
	}, time.Minute, time.Millisecond, "it recovers by itself")
	check := func(r *rig) {
		for sender := range senders {
			got, err := r.read(labels.FromStrings(f.names(sender)...))
			require.NoError(t, err)
			for at, bits := range f.acked[sender] {
				require.Equal(t, bits, got[at], "sender %d at %d", sender, at)
			}
		}
	}
	check(f.r)
	again := f.r.reopen(tweak)
	check(again)
	again.close()
	t.Logf("%d requests taken, %d refused, at most %d bytes in the head", f.accepted.Load(), f.refused.Load(), f.most.Load())
}
