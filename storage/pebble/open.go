package pebble

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/storage"
	"halite/storage/pebble/cellkey"
	"halite/storage/pebble/fault"
	"halite/storage/pebble/health"
	"halite/storage/pebble/recovery"
	"halite/storage/pebble/treefs"
	"halite/storage/periodic"
)

// File names in Options.Dir.
const (
	lockName   = "LOCK"
	stagedName = "staged"
)

// lockDir locks the directory. A failure to make the file of the lock says nothing about other processes.
func lockDir(opts Options) (io.Closer, error) {
	lock, err := opts.FS.Lock(opts.FS.PathJoin(opts.Dir, lockName))
	if file := new(os.PathError); errors.As(err, &file) || errors.Is(err, os.ErrNotExist) || storage.Exhausted(err) {
		return nil, fault.Wrap("lock storage directory", err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", storage.ErrLocked, opts.Dir, err)
	}
	return lock, nil
}

// Open opens or creates the store in opts.Dir. It fails with storage.ErrLocked if another process has it open, and with
// storage.ErrCorrupt if its metadata is damaged.
func Open(opts Options) (*Store, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	h := health.New(opts.Logger, opts.Now)
	h.OnWait = opts.Waiting
	closers := closerList{}
	if opts.FS == nil {
		fs, watch := vfs.WithDiskHealthChecks(vfs.Default, diskSlowAfter, nil, h.DiskSlow)
		opts.FS, closers = fs, closerList{watch}
	}
	s, err := openFS(opts, h)
	if err != nil {
		return nil, errors.Join(err, closers.Close())
	}
	s.closers = append(closerList{s.lock}, closers...)
	return s, nil
}

// openFS opens the store on a given file system.
func openFS(opts Options, h *health.Monitor) (*Store, error) {
	if err := admitNew(&opts); err != nil {
		return nil, err
	}
	if opts.ReadOnly {
		opts.FS = treefs.ReadOnly(opts.FS)
	} else if err := treefs.MakeDir(opts.FS, opts.Dir); err != nil {
		return nil, fault.Wrap("create storage directory", err)
	}
	lock, err := lockDir(opts)
	if err != nil {
		return nil, err
	}
	s, err := openLocked(opts, h, lock)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

func openLocked(opts Options, h *health.Monitor, lock io.Closer) (*Store, error) {
	s := &Store{opts: opts, lock: lock, health: h, tables: map[string]*Table{}, dayChunkWake: make(chan struct{}, 1),
		watch: &treefs.ManifestWatch{}}
	cache := pebble.NewCache(opts.CacheBytes)
	defer cache.Unref()
	to := treeOptions(opts, s.health, s.spanEnd, s.watch)
	to.Cache = cache
	s.cursors.Codec = opts.DayChunks
	if err := s.openTree(to); err != nil {
		return nil, err
	}
	s.loadOptions = loadWriterOptions(s.db, to)
	s.onceOptions = thoroughOptions(s.loadOptions, zstdLevelOnce)
	s.dayChunkOptions = thoroughOptions(s.loadOptions, zstdLevelThorough)
	if err := s.prepare(); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	s.logLosses()
	s.startDayChunks()
	return s, nil
}

// treeOnDisk describes the tree for the checks before it opens.
func (s *Store) treeOnDisk(to *pebble.Options) *recovery.Tree {
	o := &s.opts
	return &recovery.Tree{FS: o.FS, Dir: o.Dir, Options: to, AcceptLoss: o.AcceptLoss, Logger: o.Logger, Now: o.Now}
}

// openTree checks the tree, omits accepted losses, and opens it.
func (s *Store) openTree(to *pebble.Options) (err error) {
	s.onDisk = s.treeOnDisk(to)
	if s.opts.ReadOnly {
		if exists, err := s.onDisk.Exists(); err == nil && !exists { // a damaged tree gets the error of pebble.Open
			return fmt.Errorf("%w: %s holds no tables", storage.ErrNoTable, s.opts.Dir)
		}
		to.ReadOnly, to.DisableConsistencyCheck = true, true
	} else {
		exists, err := s.admit(s.onDisk)
		if err != nil {
			return err
		}
		to.ErrorIfNotExists = exists
		// The tree makes its directory, but does not sync the parent directory. After this point a crash leaves a directory
		// that opens: see package treefs.
		if err := treefs.MakeDir(s.opts.FS, s.onDisk.Path()); err != nil {
			return fault.Wrap("create directory", err)
		}
	}
	compactions := newCompactionScheduler()
	to.Experimental.CompactionScheduler = compactions
	if s.db, err = pebble.Open(s.onDisk.Path(), to); err != nil {
		return s.onDisk.Refusal(fault.Wrap("open store", err))
	}
	compactions.start()
	return nil
}

// compactionScheduler is Pebble's scheduler, which permits compactions only after Pebble has opened the tree. The goroutine of
// the original scheduler outlives a failed attempt to open. Then it starts compactions in a directory that the next attempt
// uses.
type compactionScheduler struct {
	*pebble.ConcurrencyLimitScheduler
	opened  atomic.Bool
	granter periodic.Jobs
}

// grantInterval is the time between two calls of grant. Pebble uses the same interval.
const grantInterval = 100 * time.Millisecond

func newCompactionScheduler() *compactionScheduler {
	return &compactionScheduler{ConcurrencyLimitScheduler: pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()}
}

// TrySchedule implements pebble.CompactionScheduler.
func (s *compactionScheduler) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	if !s.opened.Load() {
		return false, nil
	}
	return s.ConcurrencyLimitScheduler.TrySchedule()
}

// start permits compactions.
func (s *compactionScheduler) start() {
	s.opened.Store(true)
	s.granter.AddNow(grantInterval, s.grant)
}

// grant starts the compactions that wait, as far as their limit allows. A flush may have raised the limit.
func (s *compactionScheduler) grant(context.Context) {
	if granted, handle := s.TrySchedule(); granted {
		handle.Done() // starts waiting compactions
	}
}

// Unregister implements pebble.CompactionScheduler.
func (s *compactionScheduler) Unregister() {
	s.granter.Stop()
	s.granter.Wait()
	s.ConcurrencyLimitScheduler.Unregister()
}

// prepare restores the tables after the tree is open.
func (s *Store) prepare() error {
	if s.opts.ReadOnly {
		return s.loadTables()
	}
	var err error
	if s.staging, err = newStagingDir(s.opts.FS, s.opts.FS.PathJoin(s.opts.Dir, stagedName)); err != nil {
		return err
	}
	if err := s.health.Fatal(); err != nil {
		return err
	}
	if err := s.loadTables(); err != nil {
		return err
	}
	return s.registerMetrics()
}

// treeOptions returns the options of the tree. They suit two CPUs: few concurrent compactions, large memtables and blocks,
// and strong compression only in the last level, which has most bytes. Keys of adjacent rows are so similar that a very
// cheap compression makes the other levels several times smaller.
func treeOptions(opts Options, h *health.Monitor, spanEnd func(key []byte) []byte, watch *treefs.ManifestWatch) *pebble.Options {
	comparer := cellkey.NewComparer()
	keySchema := colblk.DefaultKeySchema(comparer, keyBundleRows)
	o := &pebble.Options{
		FS:                          treefs.New(opts.FS, treePath(opts), h, watch),
		Comparer:                    comparer,
		Merger:                      cellkey.NewMerger(),
		KeySchema:                   keySchema.Name,
		KeySchemas:                  sstable.MakeKeySchemas(&keySchema),
		FormatMajorVersion:          formatVersion,
		DisableWAL:                  true,
		MaxOpenFiles:                opts.OpenFilesMax,
		MemTableSize:                uint64(opts.MemtableBytes),
		MemTableStopWritesThreshold: memtablesQueuedMax,
		L0CompactionThreshold:       l0CompactionSublevels,
		L0StopWritesThreshold:       l0StopWritesSublevels,
		LBaseMaxBytes:               levelBaseBytes,
		MaxManifestFileSize:         manifestFileBytesMax,
		CompactionConcurrencyRange:  func() (int, int) { return 1, opts.CompactionsMax },
		EventListener:               h.Listener(),
		Logger:                      h.Logger(),
	}
	o.TargetFileSizes[0] = tableFileBytesL0
	o.Experimental.EnableDeleteOnlyCompactionExcises = func() bool { return true }
	// Only a flush of the memtables makes their cells durable. An ingested file that waits in the queue behind a memtable
	// would not be durable when Load returns.
	o.Experimental.DisableIngestAsFlushable = func() bool { return true }
	// Hours of a series are not versions of each other, so values stay with their keys.
	inPlace := pebble.SpanPolicy{DisableValueSeparationBySuffix: true,
		ValueStoragePolicy: pebble.ValueStorageLowReadLatency}
	o.Experimental.SpanPolicyFunc = func(key []byte) (pebble.SpanPolicy, []byte, error) {
		return inPlace, spanEnd(key), nil
	}
	last := len(o.Levels) - 1
	for i := range o.Levels {
		level := &o.Levels[i]
		level.BlockSize = blockBytes
		level.FilterPolicy = bloom.FilterPolicy(bloomBitsPerKey)
		profile := compression(sstable.FastestCompression)
		switch i {
		case 0:
			profile = sstable.NoCompression
		case last:
			level.BlockSize = blockBytesLast
			level.FilterPolicy = pebble.NoFilterPolicy
			profile = compression(sstable.ZstdCompression)
		}
		level.Compression = func() *sstable.CompressionProfile { return profile }
	}
	return o
}

// treePath returns the directory of the tree.
func treePath(opts Options) string { return opts.FS.PathJoin(opts.Dir, recovery.TreeName) }

// spanEnd returns the key before which a file that starts with key must end. No file has cells of two tables, and no file
// has cells of two partitions of a table with HourKeys. Otherwise the compactions of a small file whose rows range from the
// first key to the last would include all days in between.
func (s *Store) spanEnd(key []byte) []byte {
	if len(key) < cellkey.HeaderBytes {
		return nil
	}
	var h cellkey.Header
	copy(h[:], key)
	id := binary.BigEndian.Uint16(h[:])
	for _, t := range s.tablesByName() {
		if t.id == id && t.layout.HourKeys {
			return cellkey.AppendPartitionStart(nil, h.Next())
		}
	}
	if id == cellkey.MaxTableID {
		return nil
	}
	return cellkey.AppendPartitionStart(nil, cellkey.NewHeader(id+1, 0, cellkey.DayMax))
}

// compression returns a profile that keeps a compressed block even if it saves little. Packed values do not shrink. Keys do,
// and they are at least a tenth of a block.
func compression(profile *sstable.CompressionProfile) *sstable.CompressionProfile {
	p := *profile
	p.MinReductionPercent = reductionPercentMin
	return &p
}
