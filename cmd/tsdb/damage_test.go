package main_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// damageReport is the JSON of tsdb verify.
type damageReport struct {
	Files  int
	Damage []damagedPart
}

type damagedPart struct {
	Kind, File, Table, Reason, Effect string
	FirstDay                          string `json:"first_day"`
	LastDay                           string `json:"last_day"`
}

// verifyStore runs tsdb verify. whole is true if it finds no damage.
func verifyStore(t *testing.T, dir string, flags ...string) (r damageReport, whole bool) {
	t.Helper()
	cmd := append([]string{"verify", "--storage.path", dir, "--output", "json"}, flags...)
	out, err := tsdbOutput(t, cmd...)
	require.NoError(t, json.Unmarshal(out, &r), "%s", out)
	require.Equal(t, err == nil, len(r.Damage) == 0, "%s", out)
	return r, err == nil
}

// flipBit changes a bit in the first block of a table file and returns a function that undoes it.
func flipBit(t *testing.T, path string) (undo func()) {
	t.Helper()
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	bad := append([]byte(nil), good...)
	bad[40] ^= 1
	require.NoError(t, os.WriteFile(path, bad, 0o600))
	return func() { require.NoError(t, os.WriteFile(path, good, 0o600)) }
}

// damageTable damages the first blocks of the files of a table that have cells of the day, and returns one of the files.
func damageTable(t *testing.T, dir, table, day string) (file string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "tables", "tree", "*.sst"))
	require.NoError(t, err)
	for _, path := range files {
		undo := flipBit(t, path)
		r, _ := verifyStore(t, dir)
		i := slices.IndexFunc(r.Damage, func(d damagedPart) bool { return d.File == filepath.Base(path) })
		require.GreaterOrEqual(t, i, 0, path)
		if d := r.Damage[i]; d.Table == table && d.FirstDay <= day && day <= d.LastDay {
			file = d.File
			continue
		}
		undo()
	}
	require.NotEmpty(t, file, "no file of table %s holds day %s", table, day)
	return file
}

// TestDamagedDay flips a bit in the first block of a day. The server starts, queries of the day fail with the file's
// name, and everything else works. tsdb verify names the damage and changes nothing. After the loss is accepted, the
// other days can be read.
func TestDamagedDay(t *testing.T) {
	t.Parallel()
	dir, flags := t.TempDir(), []string{"--no-web.self-scrape", "--web.enable-admin-api"}
	today := time.Now().UTC().Truncate(24 * time.Hour)
	days := make([][]point, 4)
	s := startServer(t, dir, flags...)
	for i := range days[1:] {
		noon := today.Add(12*time.Hour - time.Duration(i+1)*24*time.Hour)
		days[i+1] = wave("damage_metric", 10, noon, noon.Add(10*time.Minute), 15*time.Second)
		s.write(days[i+1])
		if i == 0 {
			s.flush()
		}
	}
	require.Error(t, s.end(syscall.SIGKILL), s.log)
	_, whole := verifyStore(t, dir)
	require.True(t, whole, "samples that only the log has are not damage")
	s = startServer(t, dir, flags...)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
	r, whole := verifyStore(t, dir)
	require.True(t, whole)
	require.Greater(t, r.Files, 3)

	file := damageTable(t, dir, "data", today.Add(-48*time.Hour).Format(time.DateOnly))
	at := func(i int) time.Time { return today.Add(13*time.Hour - time.Duration(i)*24*time.Hour) }
	s = startServer(t, dir, flags...)
	requireOthers := func() {
		requirePoints(t, s, "damage_metric", at(1), days[1])
		requirePoints(t, s, "damage_metric", at(3), days[3])
	}
	requireOthers()
	code, a := s.get("/api/v1/query", url.Values{"query": {"damage_metric[6h]"}, "time": {seconds(at(2).UnixMilli())}})
	require.Equal(t, http.StatusInternalServerError, code)
	require.Contains(t, a.Error, file)
	out, err := tsdb(t, "verify", "--url", s.url)
	require.Error(t, err)
	require.Contains(t, out, "--storage.accept-table-loss="+file, "a snapshot has the damaged blocks of a running server")
	require.Regexp(t, `(?m)^tsdb_pebble_corruptions_total [1-9]`, s.metrics())
	now := time.Now().Truncate(time.Second)
	late := wave("late_metric", 3, now.Add(-time.Hour), now, time.Minute)
	s.write(late)
	s.flush()
	requirePoints(t, s, "late_metric", now, late)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)

	before := dirContents(t, dir)
	r, whole = verifyStore(t, dir)
	require.False(t, whole)
	require.Equal(t, file, r.Damage[0].File)
	require.Contains(t, r.Damage[0].Effect, "--storage.accept-table-loss="+file)
	require.Equal(t, before, dirContents(t, dir))

	s = startServer(t, dir, append(flags, "--storage.accept-table-loss="+file)...)
	require.Contains(t, s.log.String(), "a table file is lost, and the loss is accepted")
	requireOthers()
	requirePoints(t, s, "damage_metric", at(2), nil)
	requirePoints(t, s, "late_metric", now, late)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
	require.FileExists(t, filepath.Join(dir, "tables", "lost", file))
	_, whole = verifyStore(t, dir)
	require.True(t, whole)
}

// dirContents are the files of a directory with all below it.
func dirContents(t *testing.T, dir string) map[string]string {
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		all[path] = string(content)
		return err
	}))
	return all
}

// TestDamagedIndex flips bits in the series index. The server starts and finds all series from the row keys; tsdb verify
// --repair index rebuilds the index for good. A missing file of the index is refused by name and rebuilt when accepted.
func TestDamagedIndex(t *testing.T) {
	t.Parallel()
	dir, flags := t.TempDir(), []string{"--no-web.self-scrape", "--web.enable-admin-api"}
	today := time.Now().UTC().Truncate(24 * time.Hour)
	s := startServer(t, dir, flags...)
	noon := today.Add(-36 * time.Hour)
	points := wave("damage_metric", 10, noon, noon.Add(10*time.Minute), 15*time.Second)
	s.write(points)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
	day := noon.Format(time.DateOnly)
	requireFound := func() {
		t.Helper()
		requirePoints(t, s, "damage_metric", noon.Add(time.Hour), points)
		require.Contains(t, s.labelValues("instance", noon.UnixMilli(), noon.Add(time.Hour).UnixMilli()), "host-9")
	}

	damageTable(t, dir, "series", day)
	s = startServer(t, dir, flags...)
	require.Contains(t, s.log.String(), "rebuilt from the keys of the rows")
	requireFound()
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
	_, whole := verifyStore(t, dir)
	require.False(t, whole)
	_, whole = verifyStore(t, dir, "--repair=index")
	require.True(t, whole)
	s = startServer(t, dir, flags...)
	require.NotContains(t, s.log.String(), "damaged")
	requireFound()
	require.NoError(t, s.end(syscall.SIGTERM), s.log)

	file := damageTable(t, dir, "series", day)
	require.NoError(t, os.Remove(filepath.Join(dir, "tables", "tree", file)))
	s = launch(t, dir, freeAddress(t), flags...)
	require.Error(t, s.ended("the start"))
	require.Contains(t, s.log.String(), file)
	require.Contains(t, s.log.String(), "--storage.accept-table-loss=FILE")
	s = startServer(t, dir, append(flags, "--storage.accept-table-loss")...)
	require.Contains(t, s.log.String(), "rebuilding the series index")
	requireFound()
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
	_, whole = verifyStore(t, dir)
	require.True(t, whole)
}

// TestDamagedSmallTables damages the tables that hold few rows. The server starts or names the file and the flag; with the flag
// it starts, finds all samples, and later writes replace earlier ones.
func TestDamagedSmallTables(t *testing.T) {
	t.Parallel()
	dir, flags := t.TempDir(), []string{"--no-web.self-scrape", "--web.enable-admin-api"}
	today := time.Now().UTC().Truncate(24 * time.Hour)
	noon := today.Add(-36 * time.Hour)
	s := startServer(t, dir, flags...)
	points := wave("damage_metric", 10, noon, noon.Add(10*time.Minute), 15*time.Second)
	for range 3 { // each flush takes a sequence number, and the highest number wins
		for i := range points {
			points[i].value++
		}
		s.write(points)
		s.flush()
	}
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
	for _, table := range []string{"(list of tables)", "meta"} {
		damageTable(t, dir, table, "1970-01-01")
		s = launch(t, dir, freeAddress(t), flags...)
		if s.startsOrNames() {
			require.NoError(t, s.end(syscall.SIGTERM), s.log)
		}
		s = startServer(t, dir, append(flags, "--storage.accept-table-loss")...)
		requirePoints(t, s, "damage_metric", noon.Add(time.Hour), points)
		for i := range points {
			points[i].value++
		}
		s.write(points)
		s.flush()
		requirePoints(t, s, "damage_metric", noon.Add(time.Hour), points)
		require.NoError(t, s.end(syscall.SIGTERM), s.log)
		_, whole := verifyStore(t, dir)
		require.True(t, whole)
	}
}

// startsOrNames waits until the server is ready, or has ended with the name of a file and the flag.
func (s *server) startsOrNames() (ready bool) {
	s.t.Helper()
	for range 600 {
		select {
		case err := <-s.done:
			require.Error(s.t, err)
			require.Contains(s.t, s.log.String(), ".sst")
			require.Contains(s.t, s.log.String(), "--storage.accept-table-loss=FILE")
			return false
		case <-time.After(50 * time.Millisecond):
		}
		if resp, err := http.Get(s.url + "/-/ready"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return true
			}
		}
	}
	s.t.Fatalf("neither ready nor ended\n%s", s.log)
	return false
}
