package backup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"halite/cmd/tsdb/internal/datadir"
	"halite/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// source is a data directory with files that belong in a backup and files that do not.
func source(t *testing.T) string {
	dir := t.TempDir()
	for path, content := range map[string]string{
		"tables/TABLES": "records", "tables/tree/000004.sst": strings.Repeat("x", 3<<20), "tables/tree/marker.manifest": "",
		"tables/LOCK": "", "tables/staged/1.load": "s", "tables/lost/000001.sst": "l", "tables/lost/pending.json": "[]",
		"wal/00000001.wal": "frames", "wal/watermark": "mark", "wal/next.tmp": "", "wal/damaged/1": "d", "wal/LOCK": "",
		"snapshots/1/wal/1": "s", "reserve": "r",
	} {
		write(t, filepath.Join(dir, path), content)
	}
	return dir
}

// open returns a repository in a new directory. Its clock advances by a second with each call.
func open(t *testing.T) *Repository {
	return openAt(t, filepath.Join(t.TempDir(), "backups"), Options{})
}

func openAt(t *testing.T, location string, opts Options) *Repository {
	t.Helper()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	opts.Now = func() time.Time {
		now = now.Add(time.Second)
		return now
	}
	r, err := Open(location, opts)
	require.NoError(t, err)
	return r
}

func create(t *testing.T, r *Repository, dir string) *Created {
	t.Helper()
	c, err := r.Create(t.Context(), Source{Dir: dir}, nil)
	require.NoError(t, err)
	return c
}

func names(t *testing.T, r *Repository) (names []string) {
	t.Helper()
	backups, _, err := r.List(t.Context())
	require.NoError(t, err)
	for _, e := range backups {
		names = append(names, e.Name)
	}
	return names
}

// contents reads all files below a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode(), path)
		content, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, dir+"/")] = string(content)
		return err
	}))
	return all
}

// TestLifeOfBackups makes, verifies, restores and prunes backups. Only new and changed files are copied.
func TestLifeOfBackups(t *testing.T) {
	dir, r := source(t), open(t)
	first := create(t, r, dir)
	require.Zero(t, first.SharedBytes)
	paths := []string{}
	for _, f := range first.Manifest.Files {
		paths = append(paths, f.Path)
	}
	require.Equal(t, []string{"tables/TABLES", "tables/lost/pending.json", "tables/tree/000004.sst", "tables/tree/marker.manifest",
		"wal/00000001.wal", "wal/watermark"}, paths)

	// Equal size and another time: not the same file.
	write(t, filepath.Join(dir, "wal/watermark"), "kram")
	require.NoError(t, os.Chtimes(filepath.Join(dir, "wal/watermark"), time.Time{}, time.Now().Add(time.Hour)))
	second := create(t, r, dir)
	require.Equal(t, int64(4), second.CopiedBytes)
	require.True(t, second.Manifest.Tables)
	for _, m := range []*Manifest{first.Manifest, second.Manifest} {
		faults, err := r.Verify(t.Context(), m, nil)
		require.NoError(t, err)
		require.Empty(t, faults)
	}

	removed, err := r.Prune(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, []string{first.Manifest.Name}, removed)
	require.Equal(t, []string{second.Manifest.Name}, names(t, r))
	found, err := r.Find(t.Context(), "")
	require.NoError(t, err)
	to := filepath.Join(t.TempDir(), "new")
	require.NoError(t, r.Restore(t.Context(), found, to, nil))
	restored := contents(t, to)
	require.Equal(t, "kram", restored["wal/watermark"])
	require.Len(t, restored, 6)
	require.ErrorContains(t, r.Restore(t.Context(), found, to, nil), "is not empty")
	_, err = r.Find(t.Context(), first.Manifest.Name)
	require.ErrorContains(t, err, "has no backup")
}

// TestDamageIsNamed damages, truncates, removes and adds files. verify names each, and restore leaves no files.
func TestDamageIsNamed(t *testing.T) {
	dir, r := source(t), open(t)
	m := create(t, r, dir).Manifest
	data := filepath.Join(r.where, m.Name, "data")
	write(t, filepath.Join(data, "wal/watermark"), "marK")
	write(t, filepath.Join(data, "wal/00000001.wal"), "frame")
	require.NoError(t, os.Remove(filepath.Join(data, "tables/TABLES")))
	write(t, filepath.Join(data, "wal/00000002.wal"), "")
	faults, err := r.Verify(t.Context(), m, nil)
	require.NoError(t, err)
	found := map[string]string{}
	for _, f := range faults {
		found[f.Path] = f.Reason
	}
	require.Len(t, found, 4)
	require.Contains(t, found["wal/watermark"], "SHA-256")
	require.Contains(t, found["wal/00000001.wal"], "5 bytes instead of 6")
	require.Contains(t, found["tables/TABLES"], "missing")
	require.Contains(t, found["wal/00000002.wal"], "does not name it")

	to := filepath.Join(t.TempDir(), "new")
	require.ErrorContains(t, r.Restore(t.Context(), m, to, nil), "tables/TABLES")
	require.NoDirExists(t, to)
	require.NoDirExists(t, to+partialSuffix)

	// A file that the old backup has lost is copied again.
	next := create(t, r, dir)
	require.Equal(t, int64(len("records")+len("frames")), next.CopiedBytes)

	manifest := filepath.Join(r.where, m.Name, manifestName)
	src, err := os.ReadFile(manifest)
	require.NoError(t, err)
	src[20] ^= 1
	require.NoError(t, os.WriteFile(manifest, src, 0o600))
	_, err = r.Find(t.Context(), m.Name)
	require.ErrorContains(t, err, "checksum of the manifest is wrong")
	_, err = openAt(t, r.where, Options{ManifestBytesMax: 10}).Find(t.Context(), "")
	require.ErrorIs(t, err, ErrManifestTooLarge)
	removed, err := r.Prune(t.Context(), 1)
	require.NoError(t, err)
	require.Empty(t, removed, "a damaged backup does not push out a whole one")
}

// TestInterruptedRestore: the same command succeeds after a killed one. It touches no running restore and no files of others.
func TestInterruptedRestore(t *testing.T) {
	dir, r := source(t), open(t)
	m := create(t, r, dir).Manifest
	to := filepath.Join(t.TempDir(), "new")
	write(t, filepath.Join(to+partialSuffix, "tables", "half"), "a part")
	lock, err := datadir.Lock(to + partialSuffix)
	require.NoError(t, err)
	require.ErrorIs(t, r.Restore(t.Context(), m, to, nil), storage.ErrLocked)
	require.FileExists(t, filepath.Join(to+partialSuffix, "tables", "half"))
	require.NoError(t, lock.Close())
	require.NoError(t, r.Restore(t.Context(), m, to, nil))
	require.FileExists(t, filepath.Join(to, "tables", "TABLES"))
	require.NoFileExists(t, filepath.Join(to, "tables", "half"))
	require.NoDirExists(t, to+partialSuffix)

	other := filepath.Join(t.TempDir(), "new")
	write(t, filepath.Join(other+partialSuffix, "letter"), "mine")
	require.ErrorContains(t, r.Restore(t.Context(), m, other, nil), "letter is not from a restore")
	require.FileExists(t, filepath.Join(other+partialSuffix, "letter"))
}

// cancelling ends a context at the first line of progress.
type cancelling struct{ cancel context.CancelFunc }

func (c cancelling) Write(p []byte) (int, error) {
	c.cancel()
	return len(p), nil
}

// TestInterruptedCreate interrupts a backup, and finds the remains of a killed one. Neither is listed, and no file
// remains.
func TestInterruptedCreate(t *testing.T) {
	dir, r := source(t), open(t)
	ctx, cancel := context.WithCancel(t.Context())
	now := time.Now()
	_, err := r.Create(ctx, Source{Dir: dir}, NewProgress(cancelling{cancel}, func() time.Time {
		now = now.Add(time.Minute)
		return now
	}))
	require.ErrorIs(t, err, context.Canceled)
	entries, err := os.ReadDir(r.where)
	require.NoError(t, err)
	require.Empty(t, entries)

	snapshot := filepath.Join(t.TempDir(), snapshotsName, "20260102T030405Z-0011223344556677")
	write(t, filepath.Join(snapshot, "wal/watermark"), "")
	stranger := filepath.Join(t.TempDir(), "mine")
	write(t, filepath.Join(stranger, "file"), "")
	for name, note := range map[string]string{"20260102T030405.000Z": snapshot, "20260102T030405.001Z": stranger} {
		write(t, filepath.Join(r.where, name+partialSuffix, sourceName), note)
	}
	write(t, filepath.Join(r.where, "film.partial"), "mine")
	backups, partial, err := r.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, backups)
	require.Len(t, partial, 2)
	c := create(t, r, dir)
	require.NoDirExists(t, snapshot)
	require.DirExists(t, stranger)
	require.FileExists(t, filepath.Join(r.where, "film.partial"))
	_, partial, err = r.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, partial)
	require.Equal(t, []string{c.Manifest.Name}, names(t, r))

	_, release, err := r.backend.Lock(t.Context())
	require.NoError(t, err)
	_, err = r.Create(t.Context(), Source{Dir: dir}, nil)
	require.ErrorIs(t, err, storage.ErrLocked)
	require.NoError(t, release())
}

// TestSnapshotFails counts failures and leaves nothing behind.
func TestSnapshotFails(t *testing.T) {
	dir, reg := t.TempDir(), prometheus.NewRegistry()
	var fault error
	s := NewSnapshots(SnapshotOptions{Dir: dir, Registerer: reg, Log: func(ctx context.Context, logDir string,
		tables func(context.Context) error) error {
		write(t, filepath.Join(logDir, "00000001.wal"), "frames")
		return errors.Join(tables(ctx), fault)
	}, Tables: func(_ context.Context, dir string) error { return os.MkdirAll(dir, 0o700) }})
	fault = syscall.ENOSPC
	_, err := s.Take(t.Context())
	require.ErrorIs(t, err, syscall.ENOSPC)
	entries, err := os.ReadDir(filepath.Join(dir, snapshotsName))
	require.NoError(t, err)
	require.Empty(t, entries)
	fault = nil
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Take(gone)
	require.ErrorIs(t, err, context.Canceled, "the client is gone")
	entries, err = os.ReadDir(filepath.Join(dir, snapshotsName))
	require.NoError(t, err)
	require.Empty(t, entries)
	taken, err := s.Take(t.Context())
	require.NoError(t, err)
	require.True(t, taken.Tables)
	require.FileExists(t, filepath.Join(taken.Path, "wal/00000001.wal"))
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if strings.HasSuffix(f.GetName(), "_total") {
			want := map[string]float64{"tsdb_snapshots_total": 1, "tsdb_snapshot_failures_total": 2}[f.GetName()]
			require.Equal(t, want, f.GetMetric()[0].GetCounter().GetValue(), f.GetName())
		}
	}
	require.ErrorContains(t, RemoveSnapshot(dir), "not the directory of a snapshot")
	require.NoError(t, RemoveSnapshot(taken.Path))
	require.NoDirExists(t, taken.Path)
}

// TestSnapshotIsNotedFirst ends a command before it has read the snapshot. The repository has the name of the snapshot.
func TestSnapshotIsNotedFirst(t *testing.T) {
	snapshot := filepath.Join(t.TempDir(), snapshotsName, "20260102T030405Z-0011223344556677")
	require.NoError(t, os.MkdirAll(snapshot, 0o700))
	r := openAt(t, t.TempDir(), Options{})
	_, err := r.Create(t.Context(), Source{Dir: snapshot, Snapshot: true}, nil)
	require.ErrorContains(t, err, "list the files to back up")
	require.NoDirExists(t, snapshot)
}

// FuzzManifest parses manifests. A manifest that parses names only files inside the backup, and has one form.
func FuzzManifest(f *testing.F) {
	m := Manifest{Version: manifestVersion, Name: "20260102T030405.000Z", Tables: true, Files: []File{
		{Path: "tables/TABLES", SizeBytes: 3, SHA256: strings.Repeat("ab", 32)}}}
	for _, path := range []string{"tables/TABLES", "../x", "/etc/passwd", `a\b`, ""} {
		m.Files[0].Path = path
		src, err := m.append(nil)
		require.NoError(f, err)
		f.Add(src)
	}
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		m, err := parseManifest(src)
		if err != nil {
			return
		}
		for _, file := range m.Files {
			require.True(t, filepath.IsLocal(file.Path))
		}
		again, err := m.append(nil)
		require.NoError(t, err)
		parsed, err := parseManifest(again)
		require.NoError(t, err)
		require.Equal(t, m, parsed)
	})
}

// TestLocations: a location with a scheme is not a directory. Otherwise a misspelled bucket would leave the backup on the server.
func TestLocations(t *testing.T) {
	for _, location := range []string{"S3://backups/halite", "gs://backups/halite", "s3:// backups", "://"} {
		_, err := Open(location, Options{})
		require.ErrorContains(t, err, "s3://", location)
	}
	_, err := Open("", Options{})
	require.ErrorContains(t, err, "is empty")
	r, err := Open(t.TempDir(), Options{})
	require.NoError(t, err)
	_, err = r.Find(t.Context(), "")
	require.ErrorContains(t, err, "has no backups")
}
