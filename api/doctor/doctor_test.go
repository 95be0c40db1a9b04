package doctor

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const nowMs = int64(1_763_000_000_000)

// healthy are the facts of a server with which nothing is wrong.
func healthy() *Facts {
	return &Facts{
		NowMs: nowMs, StartMs: nowMs - (48 * time.Hour).Milliseconds(), Ready: true, FlushedMs: nowMs - 60_000, Window: time.Hour,
		Values: map[string]float64{
			headRows: 1000, headBytes: 1 << 20, logBytes: 2 << 20, storeBytes: 100 << 30, compactionDebt: 1 << 20, readRuns: 4,
			rollupAge: 600, rollupLease: 1, sweepTime: float64(nowMs/1000 - 300), tombstones: 1, tombstonesMax: 1000,
			queryBytesMax: 1 << 30, connections: 10, connectionsMax: 100,
		},
		Increases: map[string]float64{FlushedRows: 100_000, flushedLateRows: 10},
		Limits:    []Limit{{"active series", false, 1000, 2000, "--ingest.max-series=0"}},
		Metrics:   []MetricLoad{{"up", 16, 100, 20}},
		WideRows:  []WideRow{{"up#00#a=1#9500000", 70 << 10}},
		Cardinality: Cardinality{
			SeriesBefore: 10_000, SeriesNow: 10_500, Window: time.Hour, Label: "pod", ValuesBefore: 10, ValuesNow: 12,
		},
		Skews: []Skew{{From: "10.0.0.1", Ahead: time.Second}},
		Disk:  []Disk{{nowMs - 7_200_000, 500 << 30, 1000 << 30}, {nowMs, 500<<30 - 1<<20, 1000 << 30}},
	}
}

// TestHealthy: each check has a verdict with evidence, and all are ok.
func TestHealthy(t *testing.T) {
	o := DefaultOptions()
	require.NoError(t, o.Validate())
	for _, f := range []*Facts{healthy(), {Ready: true}} {
		r := Diagnose(f, &o)
		require.Len(t, r.Verdicts, len(checks()))
		require.Equal(t, OK, r.Worst(), "%+v", r.Verdicts)
		for _, v := range r.Verdicts {
			require.NotEmpty(t, v.Evidence, v.ID)
			require.NotEmpty(t, v.Subject, v.ID)
		}
	}
}

// fault is a change of healthy facts, with the verdict that it causes. The texts are parts of evidence, advice and command.
type fault struct {
	name, id                  string
	level                     Level
	change                    func(f *Facts)
	evidence, advice, command string
}

func keyFaults() []fault {
	return []fault{
		{"hot range", "hot-range", Warn, func(f *Facts) {
			f.Heat = []Heat{{"hot-range", false, "write_cells", "m", 4, 0.5, 5000, "Keys from m# on take 50 % of write_cells."}}
		}, "5,000 a second of write_cells", "With 64 salts, a range has about 3 %", `{pattern: "m", salts: 64}`},
		{"hot row", "hot-range", Critical, func(f *Facts) {
			f.Heat = []Heat{{"hot-row", true, "write_cells", "m", 4, 0.5, 5000, "The series takes 50 %."}}
		}, "The series takes 50 %.", "salts do not divide a series", ""},
		{"hot row with little load", "hot-range", Info, func(f *Facts) {
			f.Heat = []Heat{{"hot-row", true, "write_cells", "m", 4, 0.5, 999, "The series takes 50 %."}}
		}, "999 a second", "", ""},
		{"sequential writes over several metrics", "hot-range", Warn, func(f *Facts) {
			f.Heat = []Heat{{"sequential-writes", false, "write_cells", "", 0, 0.5, 5000, "It moves."}}
		}, "It moves.", "promote another label", ""},
		{"no heat", "hot-range", Info, func(f *Facts) { f.HeatOff = true }, "counts no load", "", "--keyviz.max-memory=32MB"},
		{"too few salts", "salts", Warn, func(f *Facts) { f.Metrics = []MetricLoad{{"m", 4, 9000, 100_001}} },
			"up to 100,001 of its rows a second, over 4 salts and 9,000 series", "Set 16.", "salts: 16}"},
		{"too many salts for the load", "salts", Info, func(f *Facts) { f.Metrics = []MetricLoad{{"m", 256, 9000, 10}} },
			"over 256 salts", "16 suffice", "salts: 16}"},
		{"more salts than series", "salts", Info, func(f *Facts) { f.Metrics = []MetricLoad{{"m", 64, 40, 300_000}} },
			"64 salts and 40 series", "32 suffice", "salts: 32}"},
		{"wide row", "wide-row", Warn, func(f *Facts) { f.WideRows = []WideRow{{"m#0", 3 << 20}} },
			"3.0 MiB", "one series and hour", ""},
		{"huge row", "wide-row", Critical, func(f *Facts) { f.WideRows = []WideRow{{"m#0", 128 << 20}} }, "50.0 %", "", ""},
		{"jump of series", "cardinality", Warn, func(f *Facts) {
			f.Cardinality.SeriesNow, f.Cardinality.ValuesNow = 16_000, 6000
			f.Cardinality.Metric, f.Cardinality.MetricBefore, f.Cardinality.MetricNow = "m", 5, 6005
		}, "Label pod grew from 10 to 6,000 values.", "drop it", `{action: labeldrop, regex: "pod"}`},
	}
}

func writeFaults() []fault {
	return []fault{
		{"limit near", "limits", Warn, func(f *Facts) { f.Limits[0].Used = 1600 }, "1,600 of 2,000 are in use (80 %)", "",
			"--ingest.max-series=0"},
		{"limit reached", "limits", Critical, func(f *Facts) { f.Limits[0].Used = 1950 }, "98 %", "raise the limit", ""},
		{"memory of queries", "limits", Warn, func(f *Facts) { f.Values[queryBytes] = 900 << 20 }, "900.0 MiB of 1.0 GiB", "",
			"--query.max-total-bytes"},
		{"refused", "refused", Warn, func(f *Facts) {
			f.Refusals = []Refusal{{What: "3 samples", Reason: "too_many_labels", Words: "too many labels", Line: "--x=1", Where: "flags",
				From: "10.0.0.1", Example: "series up{}"}}
		}, "3 samples refused in the past hour: too many labels. The last sender was 10.0.0.1.", "It belongs in flags.", "--x=1"},
		{"refused for a time", "refused", Info, func(f *Facts) {
			f.Refusals = []Refusal{{What: "3 write requests", Reason: "overload", Words: "busy", Temporary: true}}
		}, "3 write requests", "none is lost", ""},
		{"stored with a change", "refused", Info, func(f *Facts) {
			f.Refusals = []Refusal{{What: "3 samples", Reason: "integer_rounded", Words: "rounded", Stored: true}}
		}, "3 samples", "are stored", ""},
		{"clock ahead", "clock-skew", Warn, func(f *Facts) { f.Skews[0].Ahead = 3 * time.Minute },
			"at least 3 min in the future", "NTP", "timedatectl"},
		{"refused clock", "clock-skew", Critical, func(f *Facts) { f.Skews[0].Refused = true }, "too far in the future", "", ""},
		{"late rows", "late", Info, func(f *Facts) { f.Increases[flushedLateRows] = 20_000 },
			"20,000 of 100,000", "backfill", "--storage.head"},
		{"late rows in mode direct", "late", Info, func(f *Facts) {
			f.Values[directLateRows], f.Increases[directLateRows], f.Increases[directRows] = 1, 2000, 4000
		}, "50.0 %", "", ""},
	}
}

func storageFaults() []fault {
	return []fault{
		{"not ready", "readiness", Critical, func(f *Facts) { f.Ready, f.NotReady = false, "the disk is full" },
			"the disk is full", "", "curl"},
		{"disk full in 10 days", "disk", Warn, func(f *Facts) {
			f.Disk = []Disk{{nowMs - (10 * time.Hour).Milliseconds(), 250 << 30, 1000 << 30}, {nowMs, 240 << 30, 1000 << 30}}
		}, "Within 10 h the free space shrank by 10.0 GiB. At that rate the disk is full in 10 d.", "Enlarge",
			"--storage.retention.raw"},
		{"disk full in a day", "disk", Critical, func(f *Facts) {
			f.Disk = []Disk{{nowMs - (10 * time.Hour).Milliseconds(), 250 << 30, 1000 << 30}, {nowMs, 150 << 30, 1000 << 30}}
		}, "full in 15 h", "", ""},
		{"little free space", "disk", Warn, func(f *Facts) { f.Disk = []Disk{{nowMs, 50 << 30, 1000 << 30}} },
			"(5 %)", "", ""},
		{"no free space", "disk", Critical, func(f *Facts) { f.Disk = []Disk{{nowMs, 0, 1000 << 30}} },
			"0 B of 1000.0 GiB are free (0 %)", "Enlarge", ""},
		{"damage", "damage", Critical, func(f *Facts) { f.Values[damagedDays], f.Values[corruptions] = 2, 1 },
			"2 days of the series index are damaged; stored blocks", "Restore", "tsdb verify"},
		{"failed flush", "flush-lag", Critical, func(f *Facts) { f.Increases[flushFailures] = 2 }, "2 flushes", "safe in the log", ""},
		{"late flush", "flush-lag", Warn, func(f *Facts) { f.FlushedMs = nowMs - (4 * time.Hour).Milliseconds() },
			"no flush happened for 4 h", "", "/api/v1/admin/flush"},
		{"compaction debt", "compaction-lag", Warn, func(f *Facts) { f.Values[compactionDebt] = 30 << 30 },
			"30.0 GiB of 100.0 GiB", "disk", "--storage.memtable-bytes"},
		{"stalls", "compaction-lag", Warn, func(f *Facts) { f.Increases[writeStalls] = 3 }, "stalled 3 times", "", ""},
		{"failed compaction", "compaction-lag", Warn, func(f *Facts) { f.Increases[indexFailures] = 1 },
			"1 compactions failed", "", ""},
		{"rollups late", "rollup-lag", Warn, func(f *Facts) { f.Values[rollupAge] = 13 * 3600 }, "13 h ago", "", ""},
		{"rollups very late", "rollup-lag", Critical, func(f *Facts) { f.Values[rollupAge] = 4 * 86400 }, "4 d ago", "", ""},
		{"no sweep", "sweep-lag", Warn, func(f *Facts) { f.Values[sweepTime] = 0 }, "No sweep has ended", "hidden", ""},
		{"clock ahead", "clock-jump", Warn, func(f *Facts) { f.Values[clockAhead] = 86400 * 3650 },
			"jumped ahead by 3650 d", "set it back", "timedatectl"},
		{"failed sweep", "sweep-lag", Warn, func(f *Facts) { f.Increases[sweepFailures] = 1 }, "1 sweeps failed", "", ""},
	}
}

// TestFaults: each fault causes its verdict, with its figures, and no other one.
func TestFaults(t *testing.T) {
	o := DefaultOptions()
	covered := map[string]bool{}
	for _, list := range [][]fault{keyFaults(), writeFaults(), storageFaults()} {
		for _, c := range list {
			f := healthy()
			c.change(f)
			r := Diagnose(f, &o)
			v := r.Verdicts[0]
			require.Equal(t, c.level, v.Level, "%s: %+v", c.name, v)
			require.Equal(t, c.id, v.ID, c.name)
			require.Equal(t, "docs/doctor.md#"+c.id, v.Docs)
			require.Contains(t, v.Evidence, c.evidence, c.name)
			require.Contains(t, v.Advice, c.advice, c.name)
			require.Contains(t, v.Command, c.command, c.name)
			require.NotEmpty(t, v.Advice, c.name)
			require.Equal(t, c.level, r.Worst(), c.name)
			for _, other := range r.Verdicts[1:] {
				require.Equal(t, OK, other.Level, "%s: %+v", c.name, other)
			}
			covered[c.id] = true
		}
	}
	for _, c := range checks() {
		require.True(t, covered[c.id], "no fault tests %s", c.id)
	}
}

// TestRefusalWithoutLine: the advice names a line of configuration only if it shows one.
func TestRefusalWithoutLine(t *testing.T) {
	f, o := healthy(), DefaultOptions()
	f.Refusals = []Refusal{{What: "3 write requests", Reason: "malformed", Words: "no message"}}
	v := Diagnose(f, &o).Verdicts[0]
	require.Equal(t, "refused", v.ID)
	require.Empty(t, v.Command)
	require.NotContains(t, v.Advice, "line")
	f.Refusals[0].Line, f.Refusals[0].Where = "--x=1", "flags"
	require.Contains(t, Diagnose(f, &o).Verdicts[0].Advice, "Or set the line below. It belongs in flags.")
}

// TestListsAreBounded: a check reports the worst things only.
func TestListsAreBounded(t *testing.T) {
	o := DefaultOptions()
	f := healthy()
	for range 50 {
		f.Heat = append(f.Heat, Heat{ID: "hot-range", Text: "x", PerSecond: 5000})
		f.Refusals = append(f.Refusals, Refusal{What: "1 sample"})
		f.Skews = append(f.Skews, Skew{Ahead: time.Hour})
		f.Metrics = append(f.Metrics, MetricLoad{"m", 1, 10, 1e6})
		f.WideRows = append([]WideRow{{"m", 3 << 20}}, f.WideRows...)
		f.Limits = append(f.Limits, Limit{"x", false, 1, 1, ""})
	}
	require.Len(t, Diagnose(f, &o).Verdicts, 6*o.ListMax+len(checks())-6)
}

// TestOptions: Validate names each fault.
func TestOptions(t *testing.T) {
	o := DefaultOptions()
	o.ListMax, o.LimitWarn, o.LateShare = 0, 2, -1
	err := o.Validate()
	for _, name := range []string{"ListMax", "LimitWarn", "LateShare"} {
		require.ErrorContains(t, err, name)
	}
}

// TestDiskUnknown: without enough history, and without growth, the verdict says so instead of a time.
func TestDiskUnknown(t *testing.T) {
	o := DefaultOptions()
	for _, c := range []struct {
		age  time.Duration
		used int64
		want string
	}{
		{30 * time.Minute, 10 << 30, "when the disk will be full: the server has watched it for 30 min and needs 60 min."},
		{2 * time.Hour, -1, "Within 2 h the free space did not shrink."},
	} {
		f := healthy()
		f.Disk = []Disk{{nowMs - c.age.Milliseconds(), 500 << 30, 1000 << 30}, {nowMs, 500<<30 - c.used, 1000 << 30}}
		v := diskFull(f, &o)[0]
		require.Equal(t, OK, v.Level)
		require.Contains(t, v.Evidence, c.want)
		require.NotContains(t, v.Evidence, "is full in")
	}
}

// TestMetricsExist: the reference, which is generated from a server, has all metrics that the checks read.
func TestMetricsExist(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/metrics.md")
	require.NoError(t, err)
	for _, name := range append(Gauges(), Counters()...) {
		require.True(t, strings.Contains(string(text), "`"+name+"`"), name)
	}
}

// TestDocs: docs/doctor.md explains each check at its anchor.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/doctor.md")
	require.NoError(t, err)
	for _, c := range checks() {
		require.Contains(t, string(text), `<a id="`+c.id+`"></a>`)
	}
}

// TestText checks the forms of figures.
func TestText(t *testing.T) {
	require.Equal(t, []string{"0 B", "1023 B", "1.5 KiB", "2.0 TiB"},
		[]string{byteText(0), byteText(1023), byteText(1536), byteText(2 << 40)})
	require.Equal(t, []string{"0", "999", "1,000", "-1,234,567"}, []string{count(0), count(999), count(1000), count(-1234567)})
	require.Equal(t, []string{"119 s", "2 min", "47 h", "2 d"},
		[]string{span(119 * time.Second), span(2 * time.Minute), span(47 * time.Hour), span(48 * time.Hour)})
	require.Equal(t, []int{1, 1, 2, 64, 1000}, []int{roundUp(0), roundUp(1), roundUp(1.1), roundUp(40), roundUp(1e9)})
}
