package pebble

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
)

// Defaults of Options, for a machine with two cores and a few gigabytes of memory.
const (
	CacheBytesDefault     = 128 << 20
	MemtableBytesDefault  = 64 << 20
	TabletBytesDefault    = 1 << 30
	TabletRowsHotDefault  = 64 << 20
	StallWaitDefault      = 5 * time.Second
	memtableBytesMin      = 64 << 10
	tabletBytesMin        = 4 << 10
	compactionsMaxDefault = 2
	loadFileBytesMax      = 128 << 20
	applyBatchBytesMax    = 4 << 20
	backgroundBackoff     = 100 * time.Millisecond
	logIntervalMin        = 10 * time.Second
	diskSlowAfter         = 5 * time.Second
	l0StopWritesSublevels = 24
	l0CompactionSublevels = 4
	memtablesQueuedMax    = 4
	blockBytes            = 32 << 10
	blockBytesLast        = 64 << 10 // fewer first keys and index entries
	keyBundleRows         = 64       // rows whose keys share one stored start
	reductionPercentMin   = 3        // below it a block is not compressed
	bloomBitsPerKey       = 10
	levelBaseBytes        = 128 << 20
	tableFileBytesL0      = 4 << 20
	manifestFileBytesMax  = 16 << 20
	compactionsMaxAllowed = 64
)

// Options configure Open. Only Dir is required.
type Options struct {
	// Dir holds the store; it is created if missing. No two processes may open it at once.
	Dir string
	// FS is the file system; nil is the machine's disk.
	FS vfs.FS
	// CacheBytes bounds the block cache; 0 is CacheBytesDefault.
	CacheBytes int64
	// MemtableBytes bounds one memtable; up to four may queue. 0 is MemtableBytesDefault.
	MemtableBytes int64
	// CompactionsMax bounds compactions that run at once; 0 is 2.
	CompactionsMax int
	// TabletBytesMax is the size at which a tablet splits; 0 is TabletBytesDefault.
	TabletBytesMax int64
	// TabletRowsHot is the number of rows read and written between two checks at which a tablet splits; 0 is
	// TabletRowsHotDefault.
	TabletRowsHot int64
	// StallWait is how long a write waits for room before it fails with storage.ErrUnavailable; 0 is StallWaitDefault.
	StallWait time.Duration
	// Now is the clock for GC policies; nil is time.Now.
	Now func() time.Time
	// Logger receives background failures, rate limited; nil discards them.
	Logger *slog.Logger
	// Registerer receives the metrics tsdb_pebble_…; nil means they are not registered.
	Registerer prometheus.Registerer
}

// Validate reports options out of range. Zero values are valid everywhere but in Dir.
func (o *Options) Validate() error {
	var errs []error
	if o.Dir == "" {
		errs = append(errs, errors.New("no Dir is given"))
	}
	if o.CacheBytes < 0 {
		errs = append(errs, fmt.Errorf("CacheBytes %d is negative", o.CacheBytes))
	}
	if o.MemtableBytes != 0 && o.MemtableBytes < memtableBytesMin {
		errs = append(errs, fmt.Errorf("MemtableBytes %d is below %d", o.MemtableBytes, memtableBytesMin))
	}
	if o.CompactionsMax < 0 || o.CompactionsMax > compactionsMaxAllowed {
		errs = append(errs, fmt.Errorf("CompactionsMax %d is outside 0-%d", o.CompactionsMax, compactionsMaxAllowed))
	}
	if o.TabletBytesMax != 0 && o.TabletBytesMax < tabletBytesMin {
		errs = append(errs, fmt.Errorf("TabletBytesMax %d is below %d", o.TabletBytesMax, tabletBytesMin))
	}
	if o.TabletRowsHot < 0 || o.StallWait < 0 {
		errs = append(errs, errors.New("TabletRowsHot or StallWait is negative"))
	}
	if len(errs) > 0 {
		return fmt.Errorf("storage options: %w", errors.Join(errs...))
	}
	return nil
}

// withDefaults returns a copy with every zero field set.
func (o Options) withDefaults() Options {
	setDefault(&o.CacheBytes, CacheBytesDefault)
	setDefault(&o.MemtableBytes, MemtableBytesDefault)
	setDefault(&o.CompactionsMax, compactionsMaxDefault)
	setDefault(&o.TabletBytesMax, TabletBytesDefault)
	setDefault(&o.TabletRowsHot, TabletRowsHotDefault)
	setDefault(&o.StallWait, StallWaitDefault)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
