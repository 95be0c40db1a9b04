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
	// resourceTables: the storage below refused or did not answer.
	resourceTables = "storage"
)

// admit implements sink: it refuses while there is no room for what comes.
func (i *Ingester) admit(ctx context.Context, sizeBytes int) (release func(), err error) {
	switch {
	case i.noSpace.Load():
		return nil, i.overload(resourceSpace, "too little disk space left")
	case i.logFull.Load():
		i.wakeFlusher()
		return nil, i.overload(resourceSize, "the write-ahead log is too long and cannot be shortened")
	case i.head.Bytes() > i.rowBytesMax()/4*5:
		i.wakeFlusher()
		return nil, i.overload(resourceHead, "the memory for unflushed samples is used up")
	case i.hopts.TotalBytesMax > 0 && i.seriesBytes() > i.hopts.TotalBytesMax:
		return nil, i.overload(resourceSeries, "the memory for active series is used up")
	}
	return i.enter(ctx, sizeBytes)
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
