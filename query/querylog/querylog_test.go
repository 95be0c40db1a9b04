package querylog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func testQuery(i int) Query {
	return Query{
		Time: time.Unix(1_700_000_000, 0).UTC(), Kind: "range", Query: fmt.Sprintf("sum(m%d < 3)", i),
		StartMs: 1, EndMs: 2, StepMs: 3, Client: "127.0.0.1:1",
	}
}

// opened opens a Log with files in dir. Its warnings go to warned.
func opened(t *testing.T, dir string, warned *bytes.Buffer, change func(*Options)) *Log {
	t.Helper()
	opts := Options{
		File: filepath.Join(dir, "queries.log"), ActiveFile: filepath.Join(dir, "queries.active"), Slots: 2,
		Logger: slog.New(slog.NewTextHandler(warned, nil)),
	}
	if change != nil {
		change(&opts)
	}
	l, err := Open(opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func logged(t *testing.T, path string) (lines []map[string]any) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, text := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		var l map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &l), text)
		lines = append(lines, l)
	}
	return lines
}

// TestLogOfSlowQueries writes lines, renames the file as logrotate does, and reopens it.
func TestLogOfSlowQueries(t *testing.T) {
	dir, warned := t.TempDir(), new(bytes.Buffer)
	l := opened(t, dir, warned, func(o *Options) { o.SlowerThan = time.Second })
	l.Finished(testQuery(1), Outcome{Status: StatusSuccess, Duration: 999 * time.Millisecond})
	l.Finished(testQuery(2), Outcome{Status: StatusSuccess, Duration: time.Second, Samples: 7, PeakBytes: 8})
	require.Eventually(t, func() bool { return testutil.ToFloat64(l.metrics.lines) == 1 }, time.Minute, time.Millisecond)
	path := l.opts.File
	require.NoError(t, os.Rename(path, path+".1"))
	require.NoError(t, l.Reopen())
	l.Finished(testQuery(3), Outcome{Status: "timeout", Error: "query timed out", Duration: 2 * time.Second})
	require.NoError(t, l.Close())
	l.Finished(testQuery(4), Outcome{Status: StatusSuccess, Duration: time.Minute}) // after Close: dropped

	require.Equal(t, []map[string]any{{
		"time": "2023-11-14T22:13:20Z", "kind": "range", "query": "sum(m2 < 3)", "startMs": 1., "endMs": 2., "stepMs": 3.,
		"client": "127.0.0.1:1", "status": "success", "durationSeconds": 1., "samples": 7., "peakBytes": 8.,
	}}, logged(t, path+".1"))
	rest := logged(t, path)
	require.Len(t, rest, 1)
	require.Equal(t, []any{"timeout", "query timed out"}, []any{rest[0]["status"], rest[0]["error"]})
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.NoFileExists(t, l.opts.ActiveFile)
	require.Empty(t, warned)
}

// TestUnfinishedQueries drops a Log without closing it, as kill -9 does. The next Log reports the queries that ran.
func TestUnfinishedQueries(t *testing.T) {
	dir, warned := t.TempDir(), new(bytes.Buffer)
	l := opened(t, dir, warned, nil)
	l.Begin(testQuery(1))()
	l.Begin(testQuery(2))
	end := l.Begin(testQuery(3))
	l.Begin(testQuery(4)) // There is no third slot.
	end()
	long := testQuery(5)
	long.Query = strings.Repeat("\x01ü", 100_000)
	l.Begin(long)

	next := opened(t, dir, warned, nil)
	require.NoError(t, next.Close())
	require.Equal(t, 2., testutil.ToFloat64(next.metrics.unfinished))
	lines := logged(t, next.opts.File)
	require.Len(t, lines, 2)
	for _, line := range lines {
		require.Equal(t, StatusUnfinished, line["status"])
		require.NotContains(t, line, "durationSeconds")
	}
	texts := fmt.Sprint(lines[0]["query"], lines[1]["query"])
	require.Contains(t, texts, "sum(m2 < 3)")
	require.Contains(t, texts, "\x01ü\x01ü")
	require.Contains(t, fmt.Sprint(lines[0]["queryBytes"], lines[1]["queryBytes"]), "300000")
	require.Equal(t, 2, strings.Count(warned.String(), "query did not finish before the server died"))

	require.Zero(t, testutil.ToFloat64(opened(t, dir, warned, nil).metrics.unfinished), "the last run ended in good order")
}

// TestFormat compares both records with FORMAT.md.
func TestFormat(t *testing.T) {
	const fields = `{"time":"2023-11-14T22:13:20Z","kind":"range","query":"sum(m1 < 3)","startMs":1,"endMs":2,"stepMs":3,` +
		`"client":"127.0.0.1:1"`
	require.Equal(t, fields+"}\n", string(encodeSlot(testQuery(1))))
	text, err := encodeLine(testQuery(1), Outcome{Status: "timeout", Error: "late", Duration: time.Second, Samples: 7, PeakBytes: 8})
	require.NoError(t, err)
	require.Equal(t, fields+`,"status":"timeout","error":"late","durationSeconds":1,"samples":7,"peakBytes":8}`+"\n", string(text))
	text, err = encodeLine(testQuery(1), Outcome{Status: StatusUnfinished})
	require.NoError(t, err)
	require.Equal(t, fields+`,"status":"unfinished"}`+"\n", string(text))
}

// TestSlotIsJSON compares slots with the output of encoding/json.
func TestSlotIsJSON(t *testing.T) {
	for _, text := range []string{
		`m{a="b",c=~"\\d"}`, "", "a\tb\nc", "<&>", "\x7f", "\x00\x1f", "Zürich", "\xff\xc3", "\u2028", `"`, `\`, "é\"\\",
	} {
		for _, at := range []time.Time{time.Unix(1_700_000_000, 120_000_000), time.Unix(1_700_000_000, 0).UTC()} {
			q := Query{Time: at, Kind: "instant", Query: text, QueryBytes: len(text), StartMs: -1, EndMs: 1 << 60, Client: text}
			want, err := encode(q)
			require.NoError(t, err)
			require.Equal(t, string(want), string(encodeSlot(q)))
		}
	}
}

// TestActiveFileIsDamaged: Open warns about a damaged file and continues.
func TestActiveFileIsDamaged(t *testing.T) {
	good := encodeSlot(testQuery(1))
	slot := func(content string) string { return content + strings.Repeat("\x00", slotBytes-len(content)) }
	for _, c := range []struct {
		content             string
		unfinished, damaged float64
	}{
		{"", 0, 0},
		{slot(""), 0, 0},
		{slot("{}"), 0, 1},
		{slot("{\"query\":1}\n") + slot(string(good)), 1, 1},
		{slot("noise\n") + slot(string(good)) + "{\"tail", 1, 2},
		{string(good), 1, 0},
	} {
		dir, warned := t.TempDir(), new(bytes.Buffer)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "queries.active"), []byte(c.content), 0o644))
		l := opened(t, dir, warned, nil)
		require.Equal(t, c.unfinished, testutil.ToFloat64(l.metrics.unfinished), "%q", c.content)
		require.Equal(t, c.damaged, testutil.ToFloat64(l.metrics.damaged), "%q", c.content)
		require.Equal(t, c.damaged > 0, strings.Contains(warned.String(), "damaged"), "%q", c.content)
	}
	dir, warned := t.TempDir(), new(bytes.Buffer)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "queries.active"), 0o700))
	opened(t, dir, warned, nil).Begin(testQuery(1))()
	require.Contains(t, warned.String(), "not recording active queries")

	dir = t.TempDir()
	path := filepath.Join(dir, "queries.active")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, activeBytesMax+1))
	opened(t, dir, warned, nil)
	require.Contains(t, warned.String(), "has more than 67108864 bytes")
}

// TestMappingFails takes the pages of the mapping away, as a failing disk does. Queries continue.
func TestMappingFails(t *testing.T) {
	dir, warned := t.TempDir(), new(bytes.Buffer)
	l := opened(t, dir, warned, nil)
	end := l.Begin(testQuery(1))
	require.NoError(t, os.Truncate(l.opts.ActiveFile, 0))
	l.Begin(testQuery(2))()
	end()
	l.Begin(testQuery(3))()
	require.Equal(t, 1, strings.Count(warned.String(), "no longer recording active queries"), warned)
	require.Equal(t, 1., testutil.ToFloat64(l.metrics.failed))
}

// TestFullDisk logs to a device that is always full. The log counts each lost line and warns about the first.
func TestFullDisk(t *testing.T) {
	_, err := os.Stat("/dev/full")
	warned := new(bytes.Buffer)
	l := opened(t, t.TempDir(), warned, func(o *Options) {
		if err == nil {
			o.File = "/dev/full"
		}
	})
	if err != nil { // Without such a device, a closed file refuses lines as well.
		require.NoError(t, l.file.Close())
	}
	for i := range 5 {
		l.Finished(testQuery(i), Outcome{Status: StatusSuccess})
	}
	if closed := l.Close(); err == nil {
		require.NoError(t, closed)
	}
	require.Equal(t, 5., testutil.ToFloat64(l.metrics.failed))
	require.Equal(t, 1, strings.Count(warned.String(), "cannot write the query log"))
}

// TestTornLine: after an incomplete line, the next record starts on a new line.
func TestTornLine(t *testing.T) {
	l := opened(t, t.TempDir(), new(bytes.Buffer), nil)
	l.mu.Lock()
	_, err := l.file.WriteString(`{"cut":`)
	l.torn = true
	l.mu.Unlock()
	require.NoError(t, err)
	l.Finished(testQuery(1), Outcome{Status: StatusSuccess})
	require.NoError(t, l.Close())
	data, err := os.ReadFile(l.opts.File)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(data), "{\"cut\":\n{\"time\""), "%s", data)
}

// TestManyAtOnce begins and ends queries in several goroutines while Close runs.
func TestManyAtOnce(t *testing.T) {
	l := opened(t, t.TempDir(), new(bytes.Buffer), nil)
	var work sync.WaitGroup
	for i := range 8 {
		work.Go(func() {
			for range 200 {
				end := l.Begin(testQuery(i))
				l.Finished(testQuery(i), Outcome{Status: StatusSuccess})
				end()
			}
		})
	}
	require.NoError(t, l.Close())
	work.Wait()

	var none *Log
	none.Begin(testQuery(1))()
	none.Finished(testQuery(1), Outcome{})
	require.NoError(t, none.Reopen())
	require.NoError(t, none.Close())
}

// TestOpenRefuses: a log that cannot be opened is an error at the start.
func TestOpenRefuses(t *testing.T) {
	_, err := Open(Options{File: filepath.Join(t.TempDir(), "missing", "queries.log")})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Open(Options{SlowerThan: -1})
	require.ErrorContains(t, err, "is negative")
}

// FuzzParseSlots parses arbitrary files. Every slot is empty, damaged, or a query that can be encoded.
func FuzzParseSlots(f *testing.F) {
	good := encodeSlot(testQuery(1))
	f.Add(good)
	f.Add(append(append([]byte{}, good...), make([]byte, 2*slotBytes)...))
	f.Add([]byte("{\"query\":\"\xff\",\"time\":\"x\"}\n"))
	f.Add(bytes.Repeat([]byte{'{'}, slotBytes+1))
	f.Fuzz(func(t *testing.T, data []byte) {
		queries, damaged := parseSlots(data)
		require.LessOrEqual(t, len(queries)+damaged, (len(data)+slotBytes-1)/slotBytes)
		for _, q := range queries {
			require.LessOrEqual(t, len(q.Query), textBytesMax)
			_, err := encodeLine(q, Outcome{Status: StatusUnfinished})
			require.NoError(t, err)
		}
	})
}

// BenchmarkBeginEnd records a query in the file of active queries and removes it.
func BenchmarkBeginEnd(b *testing.B) {
	l, err := Open(Options{ActiveFile: filepath.Join(b.TempDir(), "queries.active"), Slots: 8})
	require.NoError(b, err)
	defer l.Close()
	q := testQuery(1)
	for b.Loop() {
		l.Begin(q)()
	}
}
