package ingest

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Resources that a write may be refused for; the values of the label resource of tsdb_ingest_overload_total.
const (
	resourceBytes = "in_flight_bytes"
	resourceTurns = "concurrency"
	resourceHead  = "head_memory"
	resourceSpace = "disk_space"
	resourceLog   = "log_buffer"
	resourceSize  = "log_size"
)

// overload refuses a write. The delay is spread over 1–10 s, so that senders do not come back together.
func (i *Ingester) overload(resource, reason string) error {
	i.metrics.overloads.WithLabelValues(resource).Inc()
	delay := time.Second + rand.N(9*time.Second)
	return &OverloadError{Reason: reason, RetryAfter: delay.Round(time.Second)}
}

// begin counts a caller in, so that Close can wait for it.
func (i *Ingester) begin() error {
	i.gate.Lock()
	defer i.gate.Unlock()
	if i.closed {
		return ErrClosed
	}
	i.callers.Add(1)
	return nil
}

// admit takes what a request of that many decoded bytes needs to be worked on: its bytes and a turn. release gives both
// back.
func (i *Ingester) admit(ctx context.Context, sizeBytes int) (release func(), err error) {
	switch {
	case i.noSpace.Load():
		return nil, i.overload(resourceSpace, "too little disk space left")
	case i.logFull.Load():
		i.wakeFlusher()
		return nil, i.overload(resourceSize, "the write-ahead log is too long and cannot be shortened")
	case i.head.Bytes() > i.headBytesHard:
		i.wakeFlusher()
		return nil, i.overload(resourceHead, "the memory for unflushed samples is used up")
	}
	if i.inFlight.Add(int64(sizeBytes)) > i.limits.InFlightBytesMax {
		i.inFlight.Add(int64(-sizeBytes))
		return nil, i.overload(resourceBytes, "too many bytes of requests in flight")
	}
	if err := i.turn(ctx); err != nil {
		i.inFlight.Add(int64(-sizeBytes))
		return nil, err
	}
	return func() {
		<-i.turns
		i.inFlight.Add(int64(-sizeBytes))
	}, nil
}

func (i *Ingester) turn(ctx context.Context) error {
	select {
	case i.turns <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(i.limits.QueueWaitMax)
	defer timer.Stop()
	select {
	case i.turns <- struct{}{}:
		return nil
	case <-timer.C:
		return i.overload(resourceTurns, "too many requests at once")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// checkSpace looks at the free space of the log's file system and sets whether writes are refused.
func (i *Ingester) checkSpace() {
	if i.opts.FreeBytesMin < 0 {
		return
	}
	usage, err := i.opts.FS.GetDiskUsage(i.opts.Dir)
	if err != nil {
		// In-memory file systems have no usage. A disk that cannot be asked will fail on writing, too.
		if !errors.Is(err, vfs.ErrUnsupported) && i.noSpace.CompareAndSwap(true, false) {
			i.opts.Logger.Warn("free disk space is unknown", "dir", i.opts.Dir, "err", err)
		}
		return
	}
	low := usage.AvailBytes < uint64(i.opts.FreeBytesMin)
	if i.noSpace.Swap(low) == low {
		return
	}
	if low {
		i.opts.Logger.Error("refusing writes: too little disk space left; reads go on", "dir", i.opts.Dir,
			"free_bytes", usage.AvailBytes, "needed_bytes", i.opts.FreeBytesMin)
	} else {
		i.opts.Logger.Info("taking writes again: disk space is back", "dir", i.opts.Dir, "free_bytes", usage.AvailBytes)
	}
}
