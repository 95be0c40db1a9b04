package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"halite/ingest/identity"
	"halite/ingest/ingesttest"
	"halite/storage"
	"halite/storage/pebble"
)

const (
	tablesPath = "/db/data"
	logPath    = "/db/wal"
)

// openPair opens tables and log as the server does, and compares them before the engine changes anything.
func openPair(t testing.TB, fs vfs.FS, c *ingesttest.Clock, tweak func(*Options)) (*rig, error) {
	ctx := context.Background()
	opts := Options{}
	if tweak != nil {
		tweak(&opts)
	}
	store, err := pebble.Open(pebble.Options{
		Dir: tablesPath, FS: fs, CacheBytes: 1 << 20, MemtableBytes: 256 << 10, Now: c.Now,
		AcceptLoss: func(string) bool { return opts.AcceptTableLoss },
		Admit: func(tables storage.Store) (pebble.Admission, error) {
			verdict, err := identity.Check(ctx, identity.Options{Store: tables, FS: fs, Dir: logPath,
				AcceptWALLoss: opts.AcceptWALLoss, AcceptTableLoss: opts.AcceptTableLoss})
			switch verdict {
			case identity.SetTablesAside:
				return pebble.AdmitNone, err
			case identity.KeepOlderTables:
				return pebble.AdmitOlder, err
			}
			return pebble.AdmitTables, err
		},
	})
	if err != nil {
		return nil, err
	}
	r, err := rigOn(ctx, t, fs, c, store, tweak)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return r, nil
}

// storeCopy is a copy of a disk. acked has the samples that were acknowledged at that time.
type storeCopy struct {
	fs    *vfs.MemFS
	acked map[string]map[int64]int
}

// lifetime writes to a store and keeps copies of its disk.
type lifetime struct {
	t      *testing.T
	fs     *vfs.MemFS
	clock  *ingesttest.Clock
	oracle *oracle
	r      *rig
	n      int
}

func newLifetime(t *testing.T) *lifetime {
	l := &lifetime{t: t, fs: vfs.NewCrashableMem(), clock: ingesttest.NewClock(), oracle: newOracle()}
	l.open()
	return l
}

func (l *lifetime) open() {
	var err error
	l.r, err = openPair(l.t, l.fs, l.clock, nil)
	require.NoError(l.t, err)
}

// write writes samples that no earlier copy has.
func (l *lifetime) write() {
	var samples []Sample
	for range 20 {
		l.n++
		ls := labels.FromStrings("__name__", "m", "n", fmt.Sprint(l.n%7))
		samples = append(samples, Sample{Labels: ls, TsMs: l.clock.Ms.Load() - int64(l.n)*1000, Value: float64(l.n)})
	}
	acknowledge := l.oracle.begin(samples)
	_, err := l.r.Write(context.Background(), SamplesInput(samples))
	require.NoError(l.t, err)
	acknowledge()
}

// crashCopy returns the state of the store after a power failure at this moment.
func (l *lifetime) crashCopy() storeCopy {
	return storeCopy{l.fs.CrashClone(vfs.CrashCloneCfg{}), l.oracle.snapshot()}
}

// restart ends the server, cleanly or by kill -9, and starts it again.
func (l *lifetime) restart(clean bool) {
	if !clean {
		l.fs = l.crashCopy().fs
	}
	l.r.close()
	l.open()
}

// pair joins the tables of one copy with the log of another; nil omits a side.
func pair(t *testing.T, tables, log *storeCopy) *vfs.MemFS {
	fs := vfs.NewCrashableMem()
	require.NoError(t, fs.MkdirAll("/db", 0o755))
	for path, from := range map[string]*storeCopy{tablesPath: tables, logPath: log} {
		if from == nil {
			continue
		}
		_, err := vfs.Clone(from.fs, fs, path, path, vfs.CloneSync)
		require.NoError(t, err)
	}
	require.NoError(t, syncTree(fs, "/"))
	return fs
}

func syncTree(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if info, err := fs.Stat(fs.PathJoin(dir, name)); err == nil && info.IsDir() {
			if err := syncTree(fs, fs.PathJoin(dir, name)); err != nil {
				return err
			}
		}
	}
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// listing names all files of the store but the locks, with their contents.
func listing(t *testing.T, fs vfs.FS) map[string]string {
	files := map[string]string{}
	var walk func(dir string)
	walk = func(dir string) {
		names, err := fs.List(dir)
		require.NoError(t, err)
		for _, name := range names {
			path := fs.PathJoin(dir, name)
			info, err := fs.Stat(path)
			if errors.Is(err, os.ErrNotExist) {
				continue // a running store deletes leftovers of a crash
			}
			require.NoError(t, err)
			switch {
			case info.IsDir():
				walk(path)
			case name != "LOCK":
				if content := contentOf(t, fs, path); content != nil {
					files[path] = fmt.Sprintf("%x", xxh3.Hash(content))
				}
			}
		}
	}
	walk("/db")
	return files
}

// contentOf reads a file; nil if it is gone.
func contentOf(t *testing.T, fs vfs.FS, path string) []byte {
	f, err := fs.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	content, err := io.ReadAll(f)
	require.NoError(t, errors.Join(err, f.Close()))
	return content
}

func replaceFile(t *testing.T, fs vfs.FS, path string, content []byte) {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(content)
	require.NoError(t, errors.Join(err, f.Sync(), f.Close()))
}

// copies are copies of one store's disk, in the order of time, and copies of other stores.
type copies struct {
	uncut, old, restarted, killed, now, clean storeCopy
	// diverged continues from old with other writes; stranger is another store.
	diverged, stranger storeCopy
}

// makeCopies runs a store, and copies its disk at several moments.
func makeCopies(t *testing.T) (l *lifetime, c copies) {
	l = newLifetime(t)
	l.write()
	c.uncut = l.crashCopy()
	l.r.flush()
	l.write()
	c.old = l.crashCopy()
	l.restart(true)
	l.write()
	c.restarted = l.crashCopy()
	l.restart(false)
	l.write()
	c.killed = l.crashCopy()
	l.r.flush()
	l.write()
	c.now = l.crashCopy()
	l.r.close()
	c.clean = l.crashCopy()
	fork := &lifetime{t: t, fs: c.old.fs.CrashClone(vfs.CrashCloneCfg{}), clock: ingesttest.NewClock(), oracle: newOracle(), n: 1000}
	fork.open()
	fork.write()
	fork.r.flush()
	fork.write()
	fork.r.flush()
	c.diverged = fork.crashCopy()
	fork.r.close()
	other := newLifetime(t)
	other.write()
	other.r.flush()
	other.write()
	c.stranger = other.crashCopy()
	other.r.close()
	return l, c
}

// TestIdentityOfPairs opens every pair of tables and log. A pair that could lose a sample is refused, the refusal changes nothing
// on disk, and the flag of the loss opens it for good.
func TestIdentityOfPairs(t *testing.T) {
	l, of := makeCopies(t)
	for _, c := range []struct {
		name        string
		tables, log *storeCopy
		lost        string // "" if the pair opens
	}{
		{"the store", &of.now, &of.now, ""},
		{"an older copy of the store", &of.old, &of.old, ""},
		{"nothing", nil, nil, ""},
		{"tables without a log", &of.now, nil, identity.LostLog},
		{"tables of a clean end without a log", &of.clean, nil, ""},
		{"a log without tables", nil, &of.now, identity.LostTables},
		{"a log without tables that was never cut", nil, &of.uncut, identity.LostTables},
		{"tables older than the cut", &of.old, &of.now, identity.LostTables},
		{"tables older than the log, nothing cut since", &of.restarted, &of.killed, ""},
		{"a log older than the cut", &of.now, &of.old, identity.LostLog},
		{"a log older than a restart, nothing cut since", &of.killed, &of.restarted, identity.LostLog},
		{"a log older than a clean end", &of.clean, &of.now, identity.LostLog},
		{"tables of another store", &of.stranger, &of.now, identity.LostEither},
		{"tables of a copy that went its own way", &of.diverged, &of.now, identity.LostEither},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := pair(t, c.tables, c.log)
			before := listing(t, fs)
			r, err := openPair(t, fs, l.clock, nil)
			if c.lost == "" {
				require.NoError(t, err)
				if c.log != nil {
					_, err = l.oracle.check(r, c.log.acked)
					require.NoError(t, err)
				}
				r.close()
				return
			}
			var refusal *identity.Error
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, c.lost, refusal.Lost, err)
			require.Equal(t, before, listing(t, fs), "a refused start must change nothing")
			for _, accept := range []func(*Options){
				func(o *Options) { o.AcceptWALLoss = true }, func(o *Options) { o.AcceptTableLoss = true },
			} {
				requireAccepted(t, fs.CrashClone(vfs.CrashCloneCfg{}), l.clock, refusal.Lost, accept, before)
			}
		})
	}
}

// requireAccepted opens a pair with the flag of one loss. If the flag matches the loss, every file is kept somewhere,
// and the pair agrees from then on.
func requireAccepted(
	t *testing.T, fs *vfs.MemFS, c *ingesttest.Clock, lost string, accept func(*Options), before map[string]string,
) {
	var o Options
	accept(&o)
	r, err := openPair(t, fs, c, accept)
	if lost == identity.LostLog && !o.AcceptWALLoss || lost == identity.LostTables && !o.AcceptTableLoss {
		require.ErrorAs(t, err, new(*identity.Error))
		require.Equal(t, before, listing(t, fs))
		return
	}
	require.NoError(t, err)
	kept := map[string]bool{}
	for path, content := range listing(t, fs) {
		kept[path[strings.LastIndex(path, "/")+1:]+content] = true
	}
	for path, content := range before {
		name := path[strings.LastIndex(path, "/")+1:]
		if o.AcceptTableLoss && strings.HasSuffix(name, ".sst") || o.AcceptWALLoss && strings.HasSuffix(name, ".wal") {
			require.True(t, kept[name+content], "%s is gone", path)
		}
	}
	r.write(series(upNames, sample(startMs, 1)))
	r.close()
	r, err = openPair(t, fs, c, nil)
	require.NoError(t, err, "the accepted pair agrees")
	r.close()
}

// realStore makes a store with several table files and segments. It returns the disk after a power failure, and after a clean
// end.
func realStore(t *testing.T) (l *lifetime, crashed, clean storeCopy) {
	l = newLifetime(t)
	for range 3 {
		l.write()
		l.r.flush()
		l.write()
		l.restart(false)
	}
	l.write()
	crashed = l.crashCopy()
	l.r.close()
	return l, crashed, l.crashCopy()
}

// TestMissingFiles deletes each file of a store in turn. A start either names the file and changes nothing, or serves every
// acknowledged sample.
func TestMissingFiles(t *testing.T) {
	l, crashed, clean := realStore(t)
	for state, from := range map[string]storeCopy{"crashed": crashed, "clean": clean} {
		refused := 0
		for path := range listing(t, from.fs) {
			fs := from.fs.CrashClone(vfs.CrashCloneCfg{})
			require.NoError(t, fs.Remove(path))
			before := listing(t, fs)
			r, err := openPair(t, fs, l.clock, nil)
			if err == nil {
				_, err = l.oracle.check(r, from.acked)
				require.NoError(t, err, "%s: %s is missing and samples are too", state, path)
				r.close()
				continue
			}
			refused++
			name := strings.TrimSuffix(path[strings.LastIndex(path, "/")+1:], ".sst")
			if marker := strings.SplitAfter(name, "."); marker[0] == "marker." {
				name = marker[0] + marker[1]
			}
			if !strings.Contains(err.Error(), name) {
				require.ErrorAs(t, err, new(*identity.Error), "%s: %s is missing: %v", state, path, err)
			}
			require.Equal(t, before, listing(t, fs), "%s: the start without %s changed files", state, path)
		}
		require.Greater(t, refused, 4, state)
	}
}

// TestManifestBitFlips flips single bits of the manifest. Some flips look like the end of the manifest: the tree opens
// an older state and deletes newer files. Each start must refuse, or serve every acknowledged sample.
func TestManifestBitFlips(t *testing.T) {
	const flips = 300
	l, crashed, clean := realStore(t)
	rng := rand.New(rand.NewPCG(4560, 1))
	for state, from := range map[string]storeCopy{"crashed": crashed, "clean": clean} {
		path := manifestOf(t, from.fs)
		good := contentOf(t, from.fs, path)
		refused := 0
		for n := range flips / 2 {
			at := n * len(good) / (flips / 2)
			bad := slices.Clone(good)
			bad[at] ^= 1 << rng.IntN(8)
			fs := from.fs.CrashClone(vfs.CrashCloneCfg{})
			replaceFile(t, fs, path, bad)
			before := listing(t, fs)
			r, err := openPair(t, fs, l.clock, nil)
			if err != nil {
				refused++
				require.Equal(t, before, listing(t, fs), "%s, byte %d: the refused start changed files", state, at)
				continue
			}
			_, err = l.oracle.check(r, from.acked)
			require.NoError(t, err, "%s, byte %d: samples are missing", state, at)
			r.close()
		}
		require.Greater(t, refused, flips/4, state)
	}
}

// manifestOf returns the newest manifest.
func manifestOf(t *testing.T, fs vfs.FS) string {
	var newest string
	for path := range listing(t, fs) {
		if strings.Contains(path, "/MANIFEST-") {
			newest = max(newest, path)
		}
	}
	require.NotEmpty(t, newest)
	return newest
}

// TestCrashWhileStarting cuts the power at a random operation of a short life, its start and its end included. The next start
// finds a pair that agrees and every acknowledged sample.
func TestCrashWhileStarting(t *testing.T) {
	first, count := crashSeeds(t)
	count = max(1, count/8)
	for seed := first; seed < first+count; seed++ {
		rng := rand.New(rand.NewPCG(seed, 21))
		fs, c, o := vfs.NewCrashableMem(), ingesttest.NewClock(), newOracle()
		for life := range 4 {
			again := fmt.Sprintf("life %d; reproduce: HALITE_SEED=%d HALITE_SEEDS=1 go test -run %s ./ingest", life, seed, t.Name())
			run := &crashRun{t: t, fs: fs, clock: c, oracle: o, rng: rng}
			disk := run.wrap()
			run.left.Store(int64(1 + rng.IntN(400)))
			run.armed.Store(true)
			r, err := openPair(t, disk, c, crashTweak)
			require.NoError(t, err, again)
			for range rng.IntN(3) {
				ls := labels.FromStrings("__name__", "m", "n", fmt.Sprint(rng.IntN(3)))
				samples := []Sample{{Labels: ls, TsMs: c.Ms.Load() - int64(rng.IntN(1000)), Value: rng.Float64()}}
				acknowledge := o.begin(samples)
				_, err := r.Write(context.Background(), SamplesInput(samples))
				require.NoError(t, err, again)
				acknowledge()
				if rng.IntN(2) == 0 {
					require.NoError(t, r.Flush(context.Background()), again)
				}
			}
			r.close()
			run.cutPower(0, 1)
			fs = run.crashed
			r, err = openPair(t, fs.CrashClone(vfs.CrashCloneCfg{}), c, crashTweak)
			require.NoError(t, err, again)
			o, err = o.check(r, run.acked)
			require.NoError(t, err, again)
			r.close()
		}
	}
}

// TestTablesWithoutIdentity opens tables that do not name their log, as no build since the first release writes them.
func TestTablesWithoutIdentity(t *testing.T) {
	l, _, clean := realStore(t)
	for _, log := range []*storeCopy{&clean, nil} {
		fs := pair(t, &clean, log)
		store, err := pebble.Open(pebble.Options{Dir: tablesPath, FS: fs})
		require.NoError(t, err)
		meta, err := store.Table(context.Background(), storage.TableMeta)
		require.NoError(t, err)
		cell := storage.RowRange{Start: []byte("log"), End: []byte("log\x00")}
		require.NoError(t, meta.DropRows(context.Background(), cell))
		require.NoError(t, store.Close())
		_, err = openPair(t, fs, l.clock, nil)
		var refusal *identity.Error
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, identity.LostIdentity, refusal.Lost)
		require.ErrorContains(t, err, "hold samples but no identity")
	}
}
