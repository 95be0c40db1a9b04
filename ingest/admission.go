package ingest

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Resources that a write may be refused for; the values of the label resource of tsdb_ingest_overload_total.
const (
	resourceBytes = "in_flight_bytes"
	resourceTurns = "concurrency"
	resourceHead  = "head_memory"
	// resourceSeries: known series need more memory, for samples of many days.
	resourceSeries = "series_memory"
	resourceSpace  = "disk_space"
	resourceLog    = "log_buffer"
	resourceSize   = "log_size"
	// resourceFailed: the log takes nothing until the server is started again.
	resourceFailed = "log_failed"
	// resourceTables: the storage below refused or did not answer.
	resourceTables = "storage"
)

// admit implements sink: it refuses while there is no room for what comes.
func (i *Ingester) admit(ctx context.Context, sizeBytes int) (release func(), err error) {
	if resource, reason := i.lacks(); resource != "" {
		i.flusher.Wake()
		return nil, i.overload(resource, reason)
	}
	return i.enter(ctx, sizeBytes)
}

// lacks returns the resource for lack of which writes are refused before they reach the log, and the reason in words; "" if
// there is none.
func (i *Ingester) lacks() (resource, reason string) {
	switch {
	case i.noSpace.Load():
		return resourceSpace, "too little disk space left"
	case i.logFull.Load():
		return resourceSize, "the write-ahead log is too long and cannot be shortened"
	case i.head.Bytes() > i.rowBytesMax()/4*5:
		return resourceHead, "the memory for unflushed samples is used up"
	case i.hopts.TotalBytesMax > 0 && i.seriesBytes() > i.hopts.TotalBytesMax:
		return resourceSeries, "the memory for active series is used up"
	}
	return "", ""
}

// checkSpace looks at the reserve and the free space of the log's file system, and decides whether writes are refused.
func (i *Ingester) checkSpace() {
	if i.opts.Reserve != nil {
		if err := i.opts.Reserve(); err != nil {
			i.setNoSpace(true, "err", err)
			return
		}
	}
	if i.opts.FreeBytesMin < 0 {
		i.setNoSpace(false)
		return
	}
	usage, err := i.opts.FS.GetDiskUsage(i.opts.Dir)
	if err != nil {
		// In-memory file systems have no usage. A disk that does not tell will fail on writing, too.
		if !errors.Is(err, vfs.ErrUnsupported) && i.noSpace.CompareAndSwap(true, false) {
			i.opts.Logger.Warn("free disk space is unknown", "dir", i.opts.Dir, "err", err)
		}
		return
	}
	i.setNoSpace(usage.AvailBytes < uint64(i.opts.FreeBytesMin), "free_bytes", usage.AvailBytes,
		"needed_bytes", i.opts.FreeBytesMin)
}

// setNoSpace notes whether writes are refused for lack of disk space, and logs a change.
func (i *Ingester) setNoSpace(low bool, details ...any) {
	if i.noSpace.Swap(low) == low {
		return
	}
	details = append([]any{"dir", i.opts.Dir}, details...)
	if low {
		i.opts.Logger.Error("refusing writes: too little disk space left; reads go on", details...)
	} else {
		i.opts.Logger.Info("taking writes again: disk space is back", details...)
	}
}
