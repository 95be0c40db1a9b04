package loadtest

import (
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/loadtest/fleet"
)

func TestParsePoints(t *testing.T) {
	list, err := parseResults([]byte(`{"resultType":"matrix","result":[{"metric":{"a":"b"},` +
		`"values":[[1763683200.123, "1.5e-07"],[2,"NaN"]]}]}`))
	require.NoError(t, err)
	require.Equal(t, point{1763683200123, 1.5e-07}, list[0].Values[0])
	require.True(t, math.IsNaN(list[0].Values[1].value))
	for _, bad := range []string{`[1,2]`, `[1]`, `["1","2"]`, `{}`, `[1e300,"1"]`, `[NaN,"1"]`, `[1,"x"]`, `[1,"1","2"]`} {
		require.Error(t, new(point).UnmarshalJSON([]byte(bad)), bad)
	}
}

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1,"2"]}]}}`), false)
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1.5,"NaN"]]}]}}`), false)
	f.Add([]byte(`{"status":"success","data":["a","b"]}`), true)
	f.Add([]byte(`{"status":"error","error":"x"}`), false)
	f.Fuzz(func(t *testing.T, body []byte, lookup bool) {
		answer, err := parseAnswer(body, lookup)
		if err != nil {
			return
		}
		if text := differ(answer, answer, 0); text != "" {
			t.Errorf("an answer differs from itself: %s", text)
		}
	})
}

func FuzzParseRead(f *testing.F) {
	resp := prompb.ReadResponse{Results: []*prompb.QueryResult{{Timeseries: []*prompb.TimeSeries{{
		Labels: []prompb.Label{{Name: "a", Value: "b"}}, Samples: []prompb.Sample{{Timestamp: 1, Value: 2}},
	}}}}}
	message, err := resp.Marshal()
	require.NoError(f, err)
	f.Add(snappy.Encode(nil, message))
	f.Add([]byte("\xff\xff\xff\xff\x03short"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		result, err := parseRead(answer)
		if err == nil && result == nil {
			t.Error("neither result nor error")
		}
	})
}

func FuzzParseTarget(f *testing.F) {
	f.Add("name=a;write=http://h:1/w;query=http://h:1;pid=12;dir=/d;flush=http://h:1/f;params=nocache=1")
	f.Fuzz(func(t *testing.T, text string) {
		if target, err := ParseTarget(text); err == nil && target.Validate() != nil {
			t.Errorf("%q is accepted once, then refused", text)
		}
	})
}

func FuzzParseStat(f *testing.F) {
	f.Add("1 (a) S 1 1 1 0 -1 4194560 1 1 1 1 123 45 0 0 20 0")
	f.Fuzz(func(t *testing.T, stat string) {
		if _, err := parseStat(stat); err != nil {
			require.ErrorIs(t, err, errStat)
		}
	})
}

// TestShortClaim: an answer that claims to be large is refused before anything is allocated.
func TestShortClaim(t *testing.T) {
	_, err := parseRead([]byte("\xff\xff\xff\xff\x03short"))
	require.ErrorIs(t, err, errAnswerTooLarge)
	long := snappy.Encode(nil, make([]byte, 10<<20))
	n, err := snappy.DecodedLen(long)
	require.NoError(t, err)
	require.LessOrEqual(t, n, snappyRatioMax*len(long), "what snappy really makes of zeros must be allowed")
}

func TestParseStat(t *testing.T) {
	got, err := parseStat("42 (a) b (c) R 1 42 42 0 -1 4194560 9 8 7 6 1234 66 0 0 20 0 1 0")
	require.NoError(t, err)
	require.Equal(t, 13.0, got)
	for _, bad := range []string{"", "42 (x", "42 (x) R 1", "42 (x) R 1 42 42 0 -1 4194560 9 8 7 6 a b 0"} {
		_, err := parseStat(bad)
		require.ErrorIs(t, err, errStat)
	}
	require.Equal(t, int64(2048<<10), statusBytes("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n", "VmHWM:"))
	require.Zero(t, statusBytes("Name:\tx\n", "VmHWM:"))
}

func TestMeter(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), make([]byte, 100_000), 0o600))
	require.NoError(t, os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b")))
	target := Target{PID: os.Getpid(), Dir: dir}
	var notes []string
	m := newMeter(&target, func(format string, _ ...any) { notes = append(notes, format) })
	require.NoError(t, os.WriteFile(filepath.Join(dir, "c"), make([]byte, 1_000_000), 0o600))
	m.loaded()
	use, disk := m.finish(t.Context(), 1_000_000)
	require.InDelta(t, 1.0, disk.PerSample, 0.02)
	require.InDelta(t, 100_000, disk.BeforeBytes, 8192, "two names of one file count once")
	if runtime.GOOS == "linux" {
		require.Empty(t, notes)
		require.Positive(t, use.RSSBytes)
		fine, ok := processCPU(os.Getpid())
		require.True(t, ok)
		coarse, err := os.ReadFile("/proc/self/stat")
		require.NoError(t, err)
		ticks, err := parseStat(string(coarse))
		require.NoError(t, err)
		require.InDelta(t, ticks, fine, 0.5+ticks/10, "both clocks count the same")
		require.GreaterOrEqual(t, use.PeakEverBytes, use.RSSBytes)
	}
	flushes := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { flushes++ }))
	defer server.Close()
	for n, dir := range []string{"", dir} {
		_, disk := newMeter(&Target{Dir: dir, FlushURL: server.URL}, t.Logf).finish(t.Context(), 1)
		require.Equal(t, n+1, flushes, "also of a server whose directory is elsewhere")
		require.Equal(t, dir != "", disk != nil && disk.FlushedBytes > 0)
	}
	target = Target{PID: 1 << 30, Dir: filepath.Join(dir, "nowhere")}
	m = newMeter(&target, func(format string, _ ...any) { notes = append(notes, format) })
	m.loaded()
	use, disk = m.finish(t.Context(), 1)
	require.Nil(t, use)
	require.Nil(t, disk)
	require.NotEmpty(t, notes)
}

// TestTabletsByKey places the keys of a load on given tablets and checks the sums with the salts of the same load.
func TestTabletsByKey(t *testing.T) {
	o := Options{Fleet: fleet.Options{HotSeries: 300}, From: timeOf(0), To: timeOf(4 * 3_600_000), Interval: time.Hour, Senders: 1}
	r := newTestRunner(t, o)
	all, _ := runStreams(t, r)
	for _, x := range all {
		r.ledger.acknowledged([]mark{x.mark})
	}
	tablets := []tablet{{"", "loadtest_hot_total#08#", 0, 0}, {"loadtest_hot_total#08#", "", 0, 0}}
	s := &spreader{fleet: r.fleet, timeline: r.timeline, ledger: r.ledger, schema: keyschema.DefaultSchema(), tablets: tablets}
	got := s.run()
	require.Len(t, got.Metrics, 1)
	loads := got.Metrics[0].Rows.Loads
	require.Len(t, loads, keyschema.DefaultSalts)
	var low, high int64
	for salt, n := range loads {
		if salt < 8 {
			low += n
		} else {
			high += n
		}
	}
	require.Equal(t, int64(1200), low+high, "one row for each series and hour")
	require.Equal(t, []int64{low, high}, got.Tablets.Rows.Loads)
	require.Equal(t, got.Metrics[0].Rows.Loads, got.Salts[0].Samples.Loads, "one sample in each row")
	require.Less(t, got.Metrics[0].Rows.MaxOverMean, got.Metrics[0].Rows.Bound)

	clock := time.Unix(1000, 0)
	w := &tabletWatch{now: func() time.Time { return clock }}
	w.look([]tablet{{"", "", 50, 500}})
	w.finish([]tablet{{"", "m", 30, 300}, {"m", "", 10, 100}}, got.Tablets)
	require.Equal(t, []int64{30, 10}, got.Tablets.RowsWritten.Loads, "divided at the end, each counts for itself")
	require.Zero(t, got.Tablets.CountedSeconds)
	clock = clock.Add(time.Minute)
	w.look([]tablet{{"", "n", 1, 1}, {"n", "", 1, 1}})
	w.look([]tablet{{"", "m", 35, 350}, {"m", "", 15, 150}})
	clock = clock.Add(time.Minute)
	w.finish([]tablet{{"", "m", 36, 370}, {"m", "", 18, 190}}, got.Tablets)
	require.Equal(t, []int64{1, 3}, got.Tablets.RowsWritten.Loads)
	require.Equal(t, []int64{20, 40}, got.Tablets.BytesWritten.Loads)
	require.Equal(t, 60., got.Tablets.CountedSeconds)
}
