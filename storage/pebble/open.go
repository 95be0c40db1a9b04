package pebble

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/storage"
	"halite/storage/pebble/cellkey"
)

// Names in Options.Dir.
const (
	lockName   = "LOCK"
	treeName   = "tree"
	stagedName = "staged"
	dirMode    = 0o755
)

// Open opens or creates the store in opts.Dir. It fails with storage.ErrLocked when another process has it open, and
// with storage.ErrCorrupt when its metadata is damaged.
func Open(opts Options) (*Store, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	h := newHealth(opts.Logger, opts.Now)
	h.onWait = opts.Waiting
	closers := closerList{}
	if opts.FS == nil {
		fs, watch := vfs.WithDiskHealthChecks(vfs.Default, diskSlowAfter, nil, h.diskSlow)
		opts.FS, closers = fs, closerList{watch}
	}
	s, err := openFS(opts, h)
	if err != nil {
		return nil, errors.Join(err, closers.Close())
	}
	s.closers = append(closerList{s.lock}, closers...)
	return s, nil
}

// osFS is the given file system, or the machine's.
func osFS(fs vfs.FS) vfs.FS {
	if fs == nil {
		return vfs.Default
	}
	return fs
}

// openFS opens the store on a given file system.
func openFS(opts Options, h *health) (*Store, error) {
	if err := admitNew(&opts); err != nil {
		return nil, err
	}
	if opts.ReadOnly {
		opts.FS = readFS{opts.FS}
	} else if err := makeDir(opts.FS, opts.Dir); err != nil {
		return nil, engineError("create storage directory", err)
	}
	lock, err := opts.FS.Lock(opts.FS.PathJoin(opts.Dir, lockName))
	if err != nil {
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
			return nil, engineError("lock storage directory", err)
		}
		return nil, fmt.Errorf("%w: %s: %w", storage.ErrLocked, opts.Dir, err)
	}
	s, err := openLocked(opts, h, lock)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

func openLocked(opts Options, h *health, lock io.Closer) (*Store, error) {
	s := &Store{opts: opts, lock: lock, health: h, tables: map[string]*Table{}, dayChunkWake: make(chan struct{}, 1),
		watch: &manifestWatch{}}
	cache := pebble.NewCache(opts.CacheBytes)
	defer cache.Unref()
	to := treeOptions(opts, s.health, s.spanEnd, s.watch)
	to.Cache = cache
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

// openTree checks the manifest, leaves out what is lost as accepted, and opens the tree.
func (s *Store) openTree(to *pebble.Options) (err error) {
	opts := &s.opts
	tree := opts.FS.PathJoin(opts.Dir, treeName)
	if opts.ReadOnly {
		to.ReadOnly, to.DisableConsistencyCheck = true, true
	} else {
		exists, err := s.admit(to)
		if err != nil {
			return err
		}
		to.ErrorIfNotExists = exists
		// The tree makes its directory itself, but not the directory's name durable. From here on a crash at any point leaves
		// a directory that opens: see treeFS.
		if err := makeDir(opts.FS, tree); err != nil {
			return engineError("create directory", err)
		}
	}
	if s.db, err = pebble.Open(tree, to); err != nil {
		return refusal(opts, to, engineError("open store", err))
	}
	return nil
}

// closerList closes its members in order.
type closerList []io.Closer

// Close closes all members and joins their errors.
func (l closerList) Close() error {
	var errs []error
	for _, c := range l {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// prepare reads what the store holds, after its tree is open.
func (s *Store) prepare() error {
	if s.opts.ReadOnly {
		return s.loadTables()
	}
	var err error
	if s.load, err = newLoadDir(s.opts.FS, s.opts.FS.PathJoin(s.opts.Dir, stagedName)); err != nil {
		return err
	}
	if err := s.health.fatal(); err != nil {
		return err
	}
	if err := s.loadTables(); err != nil {
		return err
	}
	return s.registerMetrics()
}

// syncDir makes the names in a directory durable.
func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// makeDir creates a directory with its parents and makes their names durable.
func makeDir(fs vfs.FS, dir string) error {
	var missing []string
	for at := dir; ; at = fs.PathDir(at) {
		if _, err := fs.Stat(at); err == nil {
			break
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
		missing = append(missing, at)
		if fs.PathDir(at) == at {
			break
		}
	}
	if err := fs.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	for _, at := range missing {
		if err := syncDir(fs, fs.PathDir(at)); err != nil {
			return err
		}
	}
	return nil
}

// treeOptions are the tree's settings. They suit two cores: few compactions at once, large memtables and blocks,
// thorough compression in the last level only, where most bytes rest. Keys of neighbouring rows are so alike that the
// levels above are several times smaller with a compression that costs next to nothing.
func treeOptions(opts Options, h *health, spanEnd func(key []byte) []byte, watch *manifestWatch) *pebble.Options {
	comparer := cellkey.NewComparer()
	keySchema := colblk.DefaultKeySchema(comparer, keyBundleRows)
	o := &pebble.Options{
		FS:                          treeFS{FS: opts.FS, h: h, watch: watch},
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
		EventListener:               h.listener(),
		Logger:                      treeLogger{h},
	}
	o.TargetFileSizes[0] = tableFileBytesL0
	o.Experimental.EnableDeleteOnlyCompactionExcises = func() bool { return true }
	// A flush of the memtables is the only thing that makes their cells durable, and an ingested file that waited in
	// the queue behind one would not be durable when Load returns.
	o.Experimental.DisableIngestAsFlushable = func() bool { return true }
	// Hours of a series are no versions of one another: their values belong beside their keys.
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

// spanEnd returns the key before which the file that begins with key must end: no file holds cells of two tables, nor of
// two partitions of a table with HourKeys. Otherwise a small file of catalogue rows, first key to last, would draw all
// days between them into its compactions.
func (s *Store) spanEnd(key []byte) []byte {
	if len(key) < cellkey.HeaderBytes {
		return nil
	}
	var h cellkey.Header
	copy(h[:], key)
	id := binary.BigEndian.Uint16(h[:])
	for _, t := range s.tablesByName() {
		if t.id == id && t.hourKeys {
			return cellkey.AppendPartitionStart(nil, h.Next())
		}
	}
	if id == cellkey.MaxTableID {
		return nil
	}
	return cellkey.AppendPartitionStart(nil, cellkey.NewHeader(id+1, 0, cellkey.DayMax))
}

// compression is a profile that keeps what a block gains by it even if that is little: values are packed already and do
// not shrink, but keys do, which are a tenth of a block or more.
func compression(of *sstable.CompressionProfile) *sstable.CompressionProfile {
	p := *of
	p.MinReductionPercent = reductionPercentMin
	return &p
}

// loadDir is where files wait for their ingestion.
type loadDir struct {
	fs     vfs.FS
	dir    string
	serial atomic.Uint64 // numbers the files
}

// newLoadDir makes the directory and removes what a crash left there: such files were never part of the store.
func newLoadDir(fs vfs.FS, dir string) (*loadDir, error) {
	if err := makeDir(fs, dir); err != nil {
		return nil, engineError("create directory for loads", err)
	}
	names, err := fs.List(dir)
	if err != nil {
		return nil, engineError("list directory for loads", err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, loadSuffix) {
			continue
		}
		if err := fs.Remove(fs.PathJoin(dir, name)); err != nil {
			return nil, engineError("remove an unfinished load", err)
		}
	}
	return &loadDir{fs: fs, dir: dir}, nil
}
