package pebble

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"halite/storage"
	"halite/storage/pebble/daycells"
)

// Defaults of Options, for a machine with two cores and a few gigabytes of memory.
const (
	CacheBytesDefault       = 128 << 20
	MemtableBytesDefault    = 64 << 20
	TabletBytesDefault      = 1 << 30
	TabletRowsHotDefault    = 64 << 20
	StallWaitDefault        = 5 * time.Second
	memtableBytesMin        = 64 << 10
	tabletBytesMin          = 4 << 10
	DayChunkAfterDefault    = time.Hour
	DayChunkQuietDefault    = 30 * time.Second
	DayChunkIntervalDefault = 15 * time.Second
	DayChunkLateDefault     = 10 // percent
	DayChunkSpanDefault     = 64 << 20
	compactionsMaxDefault   = 2
	loadFileBytesMax        = 128 << 20
	applyBatchBytesMax      = 4 << 20
	diskSlowAfter           = 5 * time.Second
	l0StopWritesSublevels   = 24
	l0CompactionSublevels   = 12
	memtablesQueuedMax      = 4
	blockBytes              = 32 << 10
	blockBytesLast          = 64 << 10 // for fewer block boundaries and index entries
	keyBundleRows           = 64       // rows whose keys share one stored prefix
	reductionPercentMin     = 1        // a smaller reduction leaves a block uncompressed
	zstdLevelThorough       = 7
	zstdLevelOnce           = 19 // for tables without HourKeys, whose loaded files stay as they are
	bloomBitsPerKey         = 10
	levelBaseBytes          = 128 << 20
	tableFileBytesL0        = 4 << 20
	manifestFileBytesMax    = 64 << 10 // a larger manifest is replaced, unless the new one would be half as large
	compactionsMaxAllowed   = 64
	formatVersion           = pebble.FormatValueSeparation
)

// Options configure Open. Only Dir is required.
type Options struct {
	// Dir is the directory of the store, created if missing. Two processes cannot open it at once.
	Dir string
	// FS is the file system; nil means the machine's disk.
	FS vfs.FS
	// ReadOnly opens an existing store without changing a byte. Writes fail. Damaged or missing files fail only the reads
	// that need them.
	ReadOnly bool
	// AcceptLoss reports whether Open may omit a damaged or missing table file, named like 000012.sst. Open moves its
	// remains to the folder lost, and Store.Lost describes them. nil accepts no loss.
	AcceptLoss func(file string) bool
	// Admit, if not nil, decides how to open the store before Open changes anything in Dir. It gets a read-only view of the
	// tables, or nil if there are none. If Admit fails, Open returns its error and leaves Dir unchanged.
	Admit func(tables storage.Store) (Admission, error)
	// CacheBytes bounds the block cache; 0 is CacheBytesDefault.
	CacheBytes int64
	// MemtableBytes bounds one memtable; up to four may queue. 0 is MemtableBytesDefault.
	MemtableBytes int64
	// OpenFilesMax bounds the open table files; 0 is 1000, the default of Pebble.
	OpenFilesMax int
	// CompactionsMax bounds concurrent compactions; 0 is 2.
	CompactionsMax int
	// TabletBytesMax is the size at which a tablet splits; 0 is TabletBytesDefault.
	TabletBytesMax int64
	// TabletRowsHot is the number of rows at which a tablet splits, read and written between two checks; 0 is
	// TabletRowsHotDefault.
	TabletRowsHot int64
	// TabletChanged is called after each split and merge of tablets; nil calls nothing. It must not block.
	TabletChanged func(storage.TabletChange)
	// StallWait is how long a write waits while the tree stalls writes. Then it fails with storage.ErrUnavailable. 0 is
	// StallWaitDefault.
	StallWait time.Duration
	// DayChunks packs the hours of a series and day into one value after the day is closed; nil keeps them apart. A store
	// with day chunks opens only with the codec of the same name.
	DayChunks *daycells.Codec
	// DayChunkAfter is the time between the end of a day and its packing; 0 is DayChunkAfterDefault.
	DayChunkAfter time.Duration
	// DayChunkQuiet is the time without writes that a day needs before it is packed; 0 is DayChunkQuietDefault.
	DayChunkQuiet time.Duration
	// DayChunkInterval is the interval of the background job; 0 is DayChunkIntervalDefault. Without the job (a negative
	// value), only CollectGarbage and WriteDayChunks pack days.
	DayChunkInterval time.Duration
	// DayChunkLatePercent is the amount of late cells, in percent of a packed day's size, that makes the job pack the day
	// again; 0 is DayChunkLateDefault.
	DayChunkLatePercent int
	// DayChunkSpanBytes is the approximate part of a day that one swap replaces; 0 is DayChunkSpanDefault.
	DayChunkSpanBytes int64
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// GCNow is the clock for GC policies; nil is Now.
	GCNow func() time.Time
	// Waiting, if set, is called when the manifest begins to wait for disk space, descriptors or memory, with the error. It
	// is called with nil when the wait ends. Open may call it too.
	Waiting func(lack error)
	// Logger receives background failures at a bounded rate; nil discards them.
	Logger *slog.Logger
	// Registerer receives the metrics tsdb_pebble_…; nil registers none.
	Registerer prometheus.Registerer
}

// Admission is a result of Options.Admit.
type Admission int

// Results of Options.Admit.
const (
	// AdmitTables opens the tables, or creates them if there are none.
	AdmitTables Admission = iota
	// AdmitOlder opens the tables and sets aside the files that the manifest does not name.
	AdmitOlder
	// AdmitNone sets the tables aside and creates new ones.
	AdmitNone
)

// Validate reports options out of range. Every zero value is valid, except in Dir.
func (o *Options) Validate() error {
	var errs []error
	if o.Dir == "" {
		errs = append(errs, errors.New("option Dir is required"))
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
	if o.DayChunkAfter < 0 || o.DayChunkQuiet < 0 || o.DayChunkLatePercent < 0 || o.DayChunkSpanBytes < 0 {
		errs = append(errs, errors.New("DayChunkAfter, DayChunkQuiet, DayChunkLatePercent or DayChunkSpanBytes is negative"))
	}
	if c := o.DayChunks; c != nil && (c.Name == "" || c.Append == nil || c.NewDecoder == nil) {
		errs = append(errs, errors.New("options Name, Append and NewDecoder of DayChunks are required"))
	}
	if len(errs) > 0 {
		return fmt.Errorf("storage options: %w", errors.Join(errs...))
	}
	return nil
}

// withDefaults returns a copy with defaults in place of zero values.
func (o Options) withDefaults() Options {
	o.CacheBytes = cmp.Or(o.CacheBytes, CacheBytesDefault)
	o.MemtableBytes = cmp.Or(o.MemtableBytes, MemtableBytesDefault)
	o.CompactionsMax = cmp.Or(o.CompactionsMax, compactionsMaxDefault)
	o.TabletBytesMax = cmp.Or(o.TabletBytesMax, TabletBytesDefault)
	o.TabletRowsHot = cmp.Or(o.TabletRowsHot, TabletRowsHotDefault)
	o.StallWait = cmp.Or(o.StallWait, StallWaitDefault)
	o.DayChunkAfter = cmp.Or(o.DayChunkAfter, DayChunkAfterDefault)
	o.DayChunkQuiet = cmp.Or(o.DayChunkQuiet, DayChunkQuietDefault)
	o.DayChunkInterval = cmp.Or(o.DayChunkInterval, DayChunkIntervalDefault)
	o.DayChunkLatePercent = cmp.Or(o.DayChunkLatePercent, DayChunkLateDefault)
	o.DayChunkSpanBytes = cmp.Or(o.DayChunkSpanBytes, DayChunkSpanDefault)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.GCNow == nil {
		o.GCNow = o.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
