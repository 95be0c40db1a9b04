package main_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"
	promtsdb "github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"
)

const (
	importSeries = 120
	importHours  = 26
	importStep   = 15 * time.Second
)

// writeBlocks writes blocks as Prometheus does, one for each two hours from start on: floats, native histograms of all kinds, and
// a deletion of the second half hour of all series with n="3". It returns the number of samples that are left.
func writeBlocks(t testing.TB, dir string, start time.Time) (samples int) {
	t.Helper()
	const blockHours = 2
	for block := range importHours / blockHours {
		from := start.Add(time.Duration(block) * blockHours * time.Hour)
		w, err := promtsdb.NewBlockWriter(slog.New(slog.DiscardHandler), dir, blockHours*time.Hour.Milliseconds())
		require.NoError(t, err)
		app := w.Appender(t.Context())
		for n := range importSeries {
			ls := labels.FromStrings("__name__", fmt.Sprintf("imported_%d_total", n%7), "n", fmt.Sprint(n))
			for at := from; at.Before(from.Add(blockHours * time.Hour)); at = at.Add(importStep) {
				_, err := app.Append(0, ls, at.UnixMilli(), float64(n)+float64(at.Unix()%1000)/8)
				require.NoError(t, err)
				samples++
			}
		}
		for n := range 20 {
			ms := from.Add(time.Duration(n) * time.Minute).UnixMilli()
			for name, add := range map[string]func(ls labels.Labels) error{
				"integers": func(ls labels.Labels) error {
					_, err := app.AppendHistogram(0, ls, ms, tsdbutil.GenerateTestHistogram(int64(n)), nil)
					return err
				},
				"custom": func(ls labels.Labels) error {
					_, err := app.AppendHistogram(0, ls, ms, tsdbutil.GenerateTestCustomBucketsHistogram(int64(n)), nil)
					return err
				},
				"floats": func(ls labels.Labels) error {
					_, err := app.AppendHistogram(0, ls, ms, nil, tsdbutil.GenerateTestFloatHistogram(int64(n)))
					return err
				},
				"gauge": func(ls labels.Labels) error {
					_, err := app.AppendHistogram(0, ls, ms, nil, tsdbutil.GenerateTestGaugeFloatHistogram(int64(n)))
					return err
				},
			} {
				require.NoError(t, add(labels.FromStrings("__name__", "imported_histogram", "kind", name)))
				samples++
			}
		}
		require.NoError(t, app.Commit())
		id, err := w.Flush(t.Context())
		require.NoError(t, err)
		require.NoError(t, w.Close())
		b, err := promtsdb.OpenBlock(nil, filepath.Join(dir, id.String()), chunkenc.NewPool(), nil)
		require.NoError(t, err)
		deletedFrom := from.Add(30 * time.Minute)
		deletedTo := from.Add(time.Hour - time.Millisecond)
		require.NoError(t, b.Delete(t.Context(), deletedFrom.UnixMilli(), deletedTo.UnixMilli(),
			labels.MustNewMatcher(labels.MatchEqual, "n", "3")))
		require.NoError(t, b.Close())
		samples -= int(30 * time.Minute / importStep)
	}
	return samples
}

// TestImportBlocks imports blocks of a Prometheus into a directory, and into a running server. Queries find every sample.
func TestImportBlocks(t *testing.T) {
	t.Parallel()
	blocks := t.TempDir()
	start := time.Now().Add(-100 * time.Hour).Truncate(2 * time.Hour)
	samples := writeBlocks(t, blocks, start)
	dir := t.TempDir()
	out, err := runTsdb(t, "import", "prometheus-blocks", blocks, "--storage.path", dir, "--storage.retention.raw=2d")
	require.Error(t, err)
	require.Contains(t, out, "--storage.retention.raw=2d keeps only samples from")
	require.Contains(t, out, "set the flag to 5d or more")

	out, err = runTsdb(t, "import", "prometheus-blocks", blocks, "--storage.path", dir)
	require.NoError(t, err, out)
	require.Contains(t, out, fmt.Sprintf("Read %d samples and stored %d,", samples, samples))
	require.Contains(t, out, fmt.Sprintf("Verified: source %d samples", samples))
	require.NoFileExists(t, filepath.Join(dir, "import.json"))
	s := startServer(t, dir, "--no-web.self-scrape")
	requireImported(t, s, blocks, start, samples)

	out, err = runTsdb(t, "import", "prometheus-blocks", blocks, "--storage.path", dir)
	require.Error(t, err)
	require.Contains(t, out, "--url imports into a running server")

	online := startServer(t, t.TempDir(), "--no-web.self-scrape")
	state := filepath.Join(t.TempDir(), "state.json")
	out, err = runTsdb(t, "import", "prometheus-blocks", blocks, "--url", online.url, "--state", state)
	require.NoError(t, err, out)
	require.Contains(t, out, fmt.Sprintf("Verified: source %d samples", samples))
	requireImported(t, online, blocks, start, samples)

	third := t.TempDir()
	out, err = runTsdb(t, "import", "remote-read", online.url, "--storage.path", third)
	require.Error(t, err)
	require.Contains(t, out, "--from is required")
	out, err = runTsdb(t, "import", "remote-read", online.url, "--storage.path", third, "--from=103h", "--window=5h")
	require.NoError(t, err, out)
	require.Contains(t, out, fmt.Sprintf("Verified: source %d samples", samples))
	requireImported(t, startServer(t, third, "--no-web.self-scrape"), blocks, start, samples)
	requireCompared(t, s, online, start)
}

// requireCompared compares two servers that have the same samples, and then with a sample more.
func requireCompared(t *testing.T, a, b *server, start time.Time) {
	t.Helper()
	queries := filepath.Join(t.TempDir(), "queries")
	text := "# own\nsum by (n) (rate(imported_1_total[5m]))\n\nmore\nscalar(vector(1))\n"
	require.NoError(t, os.WriteFile(queries, []byte(text), 0o600))
	args := []string{"compare", "--url", a.url, "--against", b.url, "--queries", queries, "--range=1h",
		"--time", start.Add(20 * time.Hour).UTC().Format(time.RFC3339)}
	out, err := runTsdb(t, args...)
	require.NoError(t, err, out)
	require.Contains(t, out, "3 of 3 queries have equal responses.")
	b.write([]point{{"more", "a", start.Add(20*time.Hour - time.Minute).UnixMilli(), 1}})
	out, err = runTsdb(t, args...)
	require.Error(t, err)
	require.Contains(t, out, "series −0 +1")
	require.Contains(t, out, "2 of 3 queries have equal responses.")
}

// requireImported compares the results of queries with the blocks.
func requireImported(t *testing.T, s *server, blocks string, start time.Time, samples int) {
	t.Helper()
	query := func(expr string) string {
		code, a := s.get("/api/v1/query", url.Values{"query": {expr}, "time": {fmt.Sprint(start.Add(importHours * time.Hour).Unix())}})
		require.Equal(t, http.StatusOK, code, a.Error)
		return string(a.Data)
	}
	require.Contains(t, query(`sum(count_over_time({__name__=~"imported_.*"}[2d]))`), fmt.Sprintf(`"%d"`, samples))
	entries, err := os.ReadDir(blocks)
	require.NoError(t, err)
	b, err := promtsdb.OpenBlock(nil, filepath.Join(blocks, entries[0].Name()), chunkenc.NewPool(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	q, err := promtsdb.NewBlockQuerier(b, b.MinTime(), b.MaxTime())
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, "n", "3|17"))
	for set.Next() {
		requireSeries(t, set.At(), query)
	}
	require.NoError(t, set.Err())
	require.Contains(t, query(`count(last_over_time(imported_histogram[2h]))`), `"4"`)
}

// requireSeries compares the floats of one series of a block.
func requireSeries(t *testing.T, series promstorage.Series, query func(string) string) {
	t.Helper()
	type pair [2]any
	var want []pair
	var firstMs, lastMs int64
	it := series.Iterator(nil)
	for it.Next() == chunkenc.ValFloat {
		ms, v := it.At()
		if len(want) == 0 {
			firstMs = ms
		}
		lastMs = ms
		want = append(want, pair{float64(ms) / 1000, fmt.Sprint(v)})
	}
	require.NoError(t, it.Err())
	var response struct{ Result []struct{ Values []pair } }
	text := query(fmt.Sprintf("%s[%dms] @ %.3f", series.Labels(), lastMs-firstMs+1, float64(lastMs)/1000))
	require.NoError(t, json.Unmarshal([]byte(text), &response))
	require.Len(t, response.Result, 1)
	require.Equal(t, want, response.Result[0].Values)
}

// TestImportSurvivesKills kills an import repeatedly, each time after some progress. The same command resumes, and no
// sample is missing.
func TestImportSurvivesKills(t *testing.T) {
	t.Parallel()
	blocks, dir := t.TempDir(), t.TempDir()
	start := time.Now().Add(-100 * time.Hour).Truncate(2 * time.Hour)
	samples := writeBlocks(t, blocks, start)
	stateFile := filepath.Join(dir, "import.json")
	read := func() int64 {
		var state struct{ Counts struct{ Read int64 } }
		if src, err := os.ReadFile(stateFile); err == nil {
			require.NoError(t, json.Unmarshal(src, &state))
		}
		return state.Counts.Read
	}
	args := []string{"import", "prometheus-blocks", blocks, "--storage.path", dir, "--writers=1"}
	for range 2 {
		before := read()
		cmd := command(t)
		cmd.Args = append(cmd.Args, args...)
		require.NoError(t, cmd.Start())
		for until := time.Now().Add(time.Minute); read() <= before && time.Now().Before(until); {
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
		require.Error(t, cmd.Wait(), "the import ended before it was killed")
		require.Greater(t, read(), before)
	}
	out, err := runTsdb(t, args...)
	require.NoError(t, err, out)
	require.Contains(t, out, "Continuing after ")
	require.Contains(t, out, fmt.Sprintf("Read %d samples and stored %d,", samples, samples))
	require.Contains(t, out, fmt.Sprintf("Verified: source %d samples", samples))
	requireImported(t, startServer(t, dir, "--no-web.self-scrape"), blocks, start, samples)
}

// TestImportAfterKilledStart: an import was killed before it had made its tables. The same command succeeds.
func TestImportAfterKilledStart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.jsonl")
	line := fmt.Sprintf(`{"metric":{"__name__":"a"},"values":[1],"timestamps":[%d]}`, time.Now().UnixMilli())
	require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	for _, left := range []string{"tables", "tables/staged"} {
		dir := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Join(dir, left), 0o700))
		out, err := runTsdb(t, "import", "jsonl", file, "--storage.path", dir)
		require.NoError(t, err, "%s: %s", left, out)
		require.Contains(t, out, "Verified: source 1 samples")
	}
}

// TestImportDamagedBlocks: an import names the damaged block, and takes a directory that Prometheus ignores for no block.
func TestImportDamagedBlocks(t *testing.T) {
	t.Parallel()
	start := time.Now().Add(-100 * time.Hour).Truncate(2 * time.Hour)
	for name, damage := range map[string]func(block string) error{
		"meta.json":        func(block string) error { return os.Remove(filepath.Join(block, "meta.json")) },
		"series ":          func(block string) error { return os.Truncate(filepath.Join(block, "chunks", "000001"), 3000) },
		"invalid checksum": func(block string) error { return os.Truncate(filepath.Join(block, "index"), 3000) },
	} {
		blocks := t.TempDir()
		writeBlocks(t, blocks, start)
		entries, err := os.ReadDir(blocks)
		require.NoError(t, err)
		block := filepath.Join(blocks, entries[2].Name())
		require.NoError(t, damage(block))
		out, err := runTsdb(t, "import", "prometheus-blocks", blocks, "--storage.path", t.TempDir())
		require.Error(t, err, name)
		require.Contains(t, out, "block "+block+": ", name)
		require.Contains(t, out, name)
	}
	blocks := t.TempDir()
	samples := writeBlocks(t, blocks, start)
	unfinished := filepath.Join(blocks, "01M8F6YYFZPY8M3DRBN75RAR3D.tmp-for-creation")
	require.NoError(t, os.Mkdir(unfinished, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(unfinished, "meta.json"), nil, 0o600))
	out, err := runTsdb(t, "import", "prometheus-blocks", blocks, "--storage.path", t.TempDir())
	require.NoError(t, err, out)
	require.Contains(t, out, fmt.Sprintf("Verified: source %d samples", samples))
}

// TestImportSizes: sizes that do not fit are refused with the name of their flag.
func TestImportSizes(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"jsonl --max-line-bytes=100B --piece-bytes=10B": "after line 1: ",
		"jsonl --piece-bytes=2GiB":                      "--piece-bytes is 2147483648, it must be from 1 to --max-line-bytes",
		"jsonl --max-line-bytes=0B":                     "--max-line-bytes is 0, it must be from 1 to 1073741824",
		"prometheus-blocks --part-samples=0":            "--part-samples is 0, it must be from 1 to 4194304",
	} {
		long := filepath.Join(t.TempDir(), "long.jsonl")
		require.NoError(t, os.WriteFile(long, []byte(`{"metric":{"__name__":"a"},"values":[1],"timestamps":[1]}`+"\n"+
			strings.Repeat("x", 200)+"\n"), 0o600))
		out, err := runTsdb(t, append(append([]string{"import", "--storage.path", t.TempDir()}, strings.Fields(args)...), long)...)
		require.Error(t, err, args)
		require.Contains(t, out, want)
	}
}

// TestImportLogs: an offline import logs to standard error, as a server does.
func TestImportLogs(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.jsonl")
	line := fmt.Sprintf(`{"metric":{"__name__":"a"},"values":[1],"timestamps":[%d]}`, time.Now().UnixMilli())
	require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	out, err := runTsdb(t, "import", "jsonl", file, "--storage.path", t.TempDir(), "--log.level=debug")
	require.NoError(t, err, out)
	require.Contains(t, out, "level=INFO")
	require.Contains(t, out, "Verified: source 1 samples")
}

// TestImportFiles imports the same samples from a file of each format, into a directory and into a server, from a file and from
// standard input.
func TestImportFiles(t *testing.T) {
	t.Parallel()
	nowMs := time.Now().Add(-time.Hour).UnixMilli()
	write := func(name, text string) string {
		file := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	var metrics strings.Builder
	metrics.WriteString("# HELP from_file_seconds Some text.\n# TYPE from_file_seconds gauge\n# UNIT from_file_seconds seconds\n")
	const many = 60_000 // more than one piece of a file
	for n := range many {
		fmt.Fprintf(&metrics, "from_file_seconds{n=\"%d\"} %d %.3f\n", n%3, n, float64(nowMs+int64(n))/1000)
	}
	metrics.WriteString("# EOF\n")
	for _, c := range []struct {
		args    []string
		samples int
	}{
		{[]string{"jsonl", write("x.jsonl",
			fmt.Sprintf(`{"metric":{"__name__":"a"},"values":[1,2],"timestamps":[%d,%d]}`, nowMs, nowMs+1))}, 2},
		{[]string{"csv", write("x.csv", fmt.Sprintf("__name__,__timestamp__,__value__\na,%d,1\na,%d,2\n", nowMs, nowMs+1))}, 2},
		{[]string{"csv", write("y.csv", fmt.Sprintf("%d;,5\n", nowMs)[:13]+",5\n"), "--format=1:time:unix_ms,2:metric:a",
			"--extra-label=b=c"}, 1},
		{[]string{"influx", write("x.lp", fmt.Sprintf("cpu,host=a idle=1,busy=2 %d\n", nowMs)), "--precision=ms", "--db=d"}, 2},
		{[]string{"opentsdb", write("x.tsd", fmt.Sprintf("sys.cpu %d 1 host=a\nput sys.cpu %d 2.5 host=a:b dc=x\n",
			nowMs/1000, nowMs)), "--special-chars=:"}, 2},
		{[]string{"openmetrics", write("x.om", metrics.String())}, many},
		{[]string{"openmetrics", write("y.om", metrics.String()), "--piece-bytes=70KiB"}, many},
	} {
		dir := t.TempDir()
		out, err := runTsdb(t, append([]string{"import", "--storage.path", dir}, c.args...)...)
		require.NoError(t, err, out)
		require.Contains(t, out, fmt.Sprintf("Read %d samples and stored %d,", c.samples, c.samples))
		require.Contains(t, out, fmt.Sprintf("Verified: source %d samples", c.samples))
	}
	s := startServer(t, t.TempDir(), "--no-web.self-scrape")
	state := "--state=" + filepath.Join(t.TempDir(), "state.json")
	out, err := runTsdb(t, "import", "openmetrics", write("x.om", metrics.String()), "--url", s.url, state)
	require.NoError(t, err, out)
	require.Contains(t, out, fmt.Sprintf("Verified: source %d samples", many))
	out, err = runTsdb(t, "import", "influx", write("y.lp", fmt.Sprintf("cpu idle=1 %d\n", nowMs*1e6)), "--db=d", "--url", s.url,
		state, "--config.file", write("halite.yml", "influx: {separator: ., db_label: database}"))
	require.NoError(t, err, out)
	_, a := s.get("/api/v1/series", url.Values{"match[]": {`{database="d"}`}})
	require.JSONEq(t, `[{"__name__":"cpu.idle","database":"d"}]`, string(a.Data))
	code, a := s.get("/api/v1/metadata", nil)
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, string(a.Data), "Some text.")

	cmd := command(t, "import", "jsonl", "-", "--url", s.url, state)
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"metric":{"__name__":"piped"},"values":[1],"timestamps":[%d]}`+"\nbad\n", nowMs))
	piped, err := cmd.CombinedOutput()
	require.Error(t, err, "a line is bad")
	require.Contains(t, string(piped), "Standard input can be read only once")
	require.Contains(t, string(piped), "Rejected 1 samples (malformed_line: 1); first: line 2: it is not a JSON object")
	code, a = s.get("/api/v1/query", url.Values{"query": {"last_over_time(piped[2h])"}})
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, string(a.Data), `"1"`)
}

// TestImportExpired: an import refuses samples older than the retention. With --skip-expired, only other rejections are an error.
func TestImportExpired(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir(), "--no-web.self-scrape")
	dir := t.TempDir()
	state := "--state=" + filepath.Join(dir, "state.json")
	old, bad := filepath.Join(dir, "old.jsonl"), filepath.Join(dir, "bad.jsonl")
	const line = `{"metric":{"__name__":"old"},"values":[1],"timestamps":[1000]}` + "\n"
	require.NoError(t, os.WriteFile(old, []byte(line), 0o600))
	require.NoError(t, os.WriteFile(bad, []byte(line+"bad\n"), 0o600))
	for _, target := range []string{"--url=" + s.url, "--storage.path=" + t.TempDir()} {
		out, err := runTsdb(t, "import", "jsonl", old, target, state)
		require.Error(t, err)
		require.Contains(t, out, "--storage.retention.raw=30d keeps only samples from", target)
	}
	out, err := runTsdb(t, "import", "jsonl", old, "--url="+s.url, state, "--skip-expired")
	require.NoError(t, err, out)
	require.Contains(t, out, "Rejected 1 samples (before_retention: 1)")
	out, err = runTsdb(t, "import", "jsonl", bad, "--url="+s.url, state, "--skip-expired")
	require.Error(t, err, "a line is bad")
	require.Contains(t, out, "Rejected 2 samples (before_retention: 1, malformed_line: 1)")
}

// TestImportWaitsForServer: an import begins while the server starts, and its comparison waits for a restart.
func TestImportWaitsForServer(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir(), "--no-web.self-scrape")
	target, err := url.Parse(s.url)
	require.NoError(t, err)
	var refused sync.Map
	proxy := httputil.NewSingleHostReverseProxy(target)
	restarting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, again := refused.LoadOrStore(r.URL.Path, true); !again {
			http.Error(w, "the server is starting", http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	defer restarting.Close()
	file := filepath.Join(t.TempDir(), "x.tsd")
	line := fmt.Sprintf("sys.cpu %d 1 host=a\n", time.Now().Unix()-60)
	require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	args := []string{"opentsdb", "import", file, "--state=" + filepath.Join(t.TempDir(), "state.json")}
	out, err := runTsdb(t, append(args, "--url", restarting.URL)...)
	require.NoError(t, err, out)
	require.Contains(t, out, "The import waits up to 5m0s for the server: ")
	require.Contains(t, out, "answered 503 Service Unavailable: the server is starting")
	require.Contains(t, out, "Verified: source 1 samples")
	for _, path := range []string{"/api/v1/status/retention", "/api/v1/write", "/api/v1/read"} {
		_, sent := refused.Load(path)
		require.True(t, sent, path)
	}
	out, err = runTsdb(t, append(args, "--url=http://"+freeAddress(t), "--retry-for=0s")...)
	require.Error(t, err)
	require.Contains(t, out, "is a server running there?")
	require.NotContains(t, out, "The import waits")
}

// TestImportOddFiles imports samples without a time, strings with line breaks at the end of pieces, and a misplaced quote.
func TestImportOddFiles(t *testing.T) {
	t.Parallel()
	nowMs := time.Now().Add(-time.Hour).UnixMilli()
	rows := strings.Repeat(fmt.Sprintf("a,%d,1\n", nowMs), 20)
	for _, c := range []struct{ name, text, args, want string }{
		{"x.csv", "__name__,__value__\nno_time,1\n", "csv", "Read 1 samples and stored 1,"},
		{"x.lp", "cpu no_time=1\n", "influx", "Read 1 samples and stored 1,"},
		{"y.lp", strings.Repeat(fmt.Sprintf("log text=\"a\nfake x=1 1\nb\",n=1 %d\n", nowMs*1e6), 20), "influx --piece-bytes=90B",
			"not_numeric: 20."},
		{"y.csv", "__name__,__timestamp__,__value__\n" + rows + "5\" a,1,1\n" + rows, "csv --piece-bytes=90B --max-line-bytes=200B",
			"Read 41 samples and stored 40,"},
	} {
		file := filepath.Join(t.TempDir(), c.name)
		require.NoError(t, os.WriteFile(file, []byte(c.text), 0o600))
		out, err := runTsdb(t, append(append([]string{"import"}, strings.Fields(c.args)...), file, "--storage.path", t.TempDir())...)
		require.Contains(t, out, c.want)
		require.Contains(t, out, "Verified: source ")
		require.Equal(t, c.name == "y.csv", err != nil, out)
	}
}

// TestImportRepeatedTimes imports several values of one time from different pieces. The last one wins, and the comparison at the
// end knows that. It still finds a destination with another value.
func TestImportRepeatedTimes(t *testing.T) {
	t.Parallel()
	nowMs := time.Now().Add(-time.Minute).UnixMilli()
	var text strings.Builder
	const repeats = 300
	for n := range repeats {
		fmt.Fprintf(&text, "repeated,instance=a,job=e2e value=%d %d\nrepeated,instance=b value=7 %d\n", n, nowMs, nowMs)
	}
	file := filepath.Join(t.TempDir(), "x.lp")
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
	args := []string{"import", "influx", file, "--precision=ms", "--piece-bytes=100B"}
	s := startServer(t, t.TempDir(), "--no-web.self-scrape")
	state := filepath.Join(t.TempDir(), "state.json")
	for _, target := range [][]string{{"--storage.path", t.TempDir()}, {"--url", s.url, "--state", state}} {
		out, err := runTsdb(t, append(args, target...)...)
		require.NoError(t, err, out)
		verified := regexp.MustCompile(`Verified: source (\d+) samples, (checksum \w+); destination (\d+) samples, (checksum \w+)`)
		sums := verified.FindStringSubmatch(out)
		require.Len(t, sums, 5, out)
		require.Equal(t, sums[1:3], sums[3:5])
	}
	_, a := s.get("/api/v1/query", url.Values{"query": {`repeated{instance="a"}`}})
	require.Contains(t, string(a.Data), fmt.Sprintf(`"%d"`, repeats-1))

	s.write([]point{{"repeated", "a", nowMs, 0}})
	imported := fmt.Sprintf(`{"version":1,"from":"influx %s","to":"server %s","imported":true}`, file, s.url)
	require.NoError(t, os.WriteFile(state, []byte(imported), 0o600))
	out, err := runTsdb(t, append(args, "--url", s.url, "--state", state)...)
	require.Error(t, err)
	first := fmt.Sprintf(`first: {__name__="repeated", instance="a", job="e2e"} at %d ms`, nowMs)
	require.Contains(t, out, "1 samples have another value; "+first)
}

// TestImportCutOpenMetrics: a file that is cut off is refused before the first sample is stored, also within a line.
func TestImportCutOpenMetrics(t *testing.T) {
	t.Parallel()
	line := fmt.Sprintf("a 12345 %d\n", time.Now().Unix())
	for _, text := range []string{"", line, line + "a 123", line + line[:len(line)-3]} {
		file := filepath.Join(t.TempDir(), "x.om")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		out, err := runTsdb(t, "import", "openmetrics", file, "--storage.path", t.TempDir())
		require.Error(t, err)
		require.Contains(t, out, "the text does not end with # EOF")
		require.NotContains(t, out, "Read ")
	}
}
