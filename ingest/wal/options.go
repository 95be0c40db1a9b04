package wal

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"halite/ingest/wal/record"
)

// Defaults of the Options.
const (
	SegmentBytesDefault      = 128 << 20
	CommitDelayDefault       = 2 * time.Millisecond
	CommitBytesDefault       = 256 << 10
	BufferBytesDefault       = 64 << 20
	WatermarkIntervalDefault = time.Second
	SlowAfterDefault         = time.Second
)

// PayloadBytesMax is the largest payload of one frame in bytes.
const PayloadBytesMax = record.BytesMax

// Options of a Log. Zero values mean the defaults.
type Options struct {
	// Dir holds the log and nothing else; it is created if missing.
	Dir string
	// FS is the file system; nil means the disk.
	FS vfs.FS
	// SegmentBytesMax is the largest size of a segment (128 MiB). A larger frame gets a segment of its own.
	SegmentBytesMax int64
	// CommitDelay is the minimum time between the starts of two commits (2 ms); negative means none. It bounds the rate of
	// syncs under many clients. A lone client and the first request after a pause do not wait for it.
	CommitDelay time.Duration
	// CommitBytes is the size of the buffer above which a commit ignores CommitDelay (256 KiB).
	CommitBytes int
	// BufferBytesMax bounds the bytes that wait for the disk (64 MiB). Above it Append fails with ErrOverload.
	BufferBytesMax int
	// BlockWhenFull makes Append wait for room instead of failing with ErrOverload.
	BlockWhenFull bool
	// WatermarkInterval is the time between two updates of the watermark (1 s). Damage to frames acknowledged within the last
	// interval may look like a torn tail.
	WatermarkInterval time.Duration
	// SlowAfter is the duration above which a commit counts as slow (1 s).
	SlowAfter time.Duration
	// AcceptLoss makes Replay continue after damage, report it in ReplayStats.Losses and move the damaged files to damaged/.
	AcceptLoss bool
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Logger receives messages for operators; nil discards them.
	Logger *slog.Logger
	// Registerer receives the metrics tsdb_wal_…; nil registers none.
	Registerer prometheus.Registerer
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	o.SegmentBytesMax = cmp.Or(o.SegmentBytesMax, SegmentBytesDefault)
	o.CommitDelay = cmp.Or(o.CommitDelay, CommitDelayDefault)
	o.CommitBytes = cmp.Or(o.CommitBytes, CommitBytesDefault)
	o.BufferBytesMax = cmp.Or(o.BufferBytesMax, BufferBytesDefault)
	o.WatermarkInterval = cmp.Or(o.WatermarkInterval, WatermarkIntervalDefault)
	o.SlowAfter = cmp.Or(o.SlowAfter, SlowAfterDefault)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Validate names every option out of range in its error.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	if o.Dir == "" {
		errs = append(errs, errors.New("option Dir is required"))
	}
	if o.SegmentBytesMax < segmentBytesMin || o.SegmentBytesMax > segmentBytesMax {
		errs = append(errs, fmt.Errorf("SegmentBytesMax %d is outside [%d, %d]",
			o.SegmentBytesMax, segmentBytesMin, segmentBytesMax))
	}
	if o.CommitBytes < 0 {
		errs = append(errs, fmt.Errorf("CommitBytes %d is negative", o.CommitBytes))
	}
	if o.BufferBytesMax < 0 || o.BufferBytesMax > bufferBytesMax {
		errs = append(errs, fmt.Errorf("BufferBytesMax %d is outside [0, %d]", o.BufferBytesMax, bufferBytesMax))
	}
	if o.WatermarkInterval < 0 {
		errs = append(errs, fmt.Errorf("WatermarkInterval %v is negative", o.WatermarkInterval))
	}
	if o.SlowAfter < 0 {
		errs = append(errs, fmt.Errorf("SlowAfter %v is negative", o.SlowAfter))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("wal options: %w", err)
	}
	return nil
}

// Bounds of the options. A frame has 32 bits for offsets in a segment and in a group.
const (
	segmentBytesMin = 256
	segmentBytesMax = 1 << 30
	bufferBytesMax  = 1 << 30
)
