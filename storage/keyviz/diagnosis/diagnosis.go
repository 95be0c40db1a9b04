package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"halite/storage/keyviz"
	"halite/storage/keyviz/heat"
)

// Level is the severity of a finding.
type Level string

const (
	Info    Level = "info"
	Warning Level = "warning"
	Danger  Level = "danger"
)

// Names of findings. They are part of the API.
const (
	HotRow           = "hot-row"
	HotRange         = "hot-range"
	SequentialWrites = "sequential-writes"
	FullScan         = "full-scan"
	SaltSkew         = "salt-skew"
	LargeRow         = "large-row"
	Tombstones       = "tombstones"
	Gap              = "gap"
)

// Finding is a conclusion from a heat map.
type Finding struct {
	ID    string
	Level Level
	// FromMs and ToMs bound its time, milliseconds since 1970.
	FromMs, ToMs int64
	// Start and End bound its keys; an empty End is unbounded.
	Start, End string
	// Share is its part of the load, 0 to 1.
	Share float64
	// Seen describes the observation. Text adds advice.
	Seen, Text string
}

const (
	// hotShare is the least share of a hot range in each of its columns. hotTime is the least duration.
	hotShare = 0.25
	hotTime  = 5 * time.Minute
	// hotOver is the least load of a hot row, relative to an even spread over all rows.
	hotOver = 4
	// countMin is the least count of a significant column.
	countMin = 100
	// sequentialColumns is the least number of columns in which the hottest row moves in one direction.
	sequentialColumns = 10
	// sequentialMoves is the least number of such moves.
	sequentialMoves = 5
	// scanShare is the least share of ranges that a full scan reads in a column. scanUsual is the largest share in other
	// columns.
	scanShare, scanUsual = 0.8, 0.5
	// scanRanges is the least number of ranges in which a full scan is detectable.
	scanRanges = 16
	// skewSalts is the least number of salts that are compared for a metric. skewOver is the least ratio of the hottest salt
	// to the mean. skewShare is the least share of the metric in the load.
	skewSalts, skewOver, skewShare = 4, 3.0, 0.05
	// largeRow and hugeRow are mean sizes of rows in bytes.
	largeRow, hugeRow = 64 << 20, 256 << 20
	// tombstonesMany is the number of uncleaned deletions that makes a finding.
	tombstonesMany = 1000
)

// say sets Seen and Text of a finding.
func (f *Finding) say(advice, seen string, args ...any) {
	f.Seen = fmt.Sprintf(seen, args...)
	f.Text = f.Seen + " " + advice
}

// Find returns the findings of a map, the worst first. tombstones is the number of uncleaned deletions.
func Find(m *keyviz.Map, tombstones int) []Finding {
	v := newView(m)
	sequential := v.sequential()
	out := slices.Concat(without(v.hot(), sequential), sequential, v.scans(), v.skew(), v.largeRows(), v.gaps())
	if tombstones >= tombstonesMany {
		f := Finding{
			ID: Tombstones, Level: Warning, FromMs: m.TimesMs[0], ToMs: m.TimesMs[len(m.TimesMs)-1], Start: m.Starts[0], End: m.End,
		}
		f.say("Run tsdb delete --clean.", "%d deletions wait for their rows to be cleaned, and every read checks them.", tombstones)
		out = append(out, f)
	}
	order := []Level{Danger, Warning, Info}
	slices.SortStableFunc(out, func(a, b Finding) int { return slices.Index(order, a.Level) - slices.Index(order, b.Level) })
	return out
}

// view is a map with its totals.
type view struct {
	*keyviz.Map
	totals []float64 // by column
	sum    float64
}

func newView(m *keyviz.Map) *view {
	v := &view{Map: m, totals: make([]float64, len(m.Values))}
	for c, column := range m.Values {
		for _, n := range column {
			v.totals[c] += n
		}
		v.sum += v.totals[c]
	}
	return v
}

// end is where a row ends.
func (v *view) end(row int) string {
	if row+1 < len(v.Starts) {
		return v.Starts[row+1]
	}
	return v.End
}

// oneSeries reports whether a row holds rows of only one series.
func (v *view) oneSeries(row int) bool {
	start := v.Starts[row]
	return strings.Count(start, "#") == 3 && strings.HasSuffix(start, "#") && v.end(row) == start[:len(start)-1]+"$"
}

// columnsOf returns the number of columns in a duration, at least one.
func (v *view) columnsOf(d time.Duration) int {
	step := v.TimesMs[1] - v.TimesMs[0]
	return int(max(1, (d.Milliseconds()+step-1)/step))
}

// runs calls fn with each maximal run of at least `least` consecutive columns that ok accepts.
func (v *view) runs(least int, ok func(c int) bool, fn func(from, to int)) {
	from := 0
	for c := 0; c <= len(v.Values); c++ {
		if c < len(v.Values) && ok(c) {
			continue
		}
		if c-from >= least {
			fn(from, c)
		}
		from = c + 1
	}
}

// load returns the load of a row in columns, and its share.
func (v *view) load(row, from, to int) (n, share float64) {
	all := 0.0
	for c := from; c < to; c++ {
		n += v.Values[c][row]
		all += v.totals[c]
	}
	return n, n / max(all, 1)
}

// hot finds rows with a large share of the load for some minutes. For each row it returns the longest such time.
func (v *view) hot() (out []Finding) {
	if v.Metric.IsMax() || len(v.Starts) < 2*hotOver {
		return nil
	}
	least := max(hotShare, hotOver/float64(len(v.Starts)))
	for row := range v.Starts {
		first, last := -1, -1
		v.runs(v.columnsOf(hotTime), func(c int) bool {
			return v.totals[c] >= countMin && v.Values[c][row] > least*v.totals[c]
		}, func(from, to int) {
			if to-from > last-first {
				first, last = from, to
			}
		})
		if first < 0 {
			continue
		}
		_, share := v.load(row, first, last)
		f := Finding{
			ID: HotRange, Level: Warning, FromMs: v.TimesMs[first], ToMs: v.TimesMs[last], Start: v.Starts[row], End: v.end(row),
			Share: share,
		}
		f.say("Give the metric more salts, or put a tag with many values into the salt (docs/schema.md).",
			"%s take %.0f %% of %s.", rangeText(f.Start), 100*share, v.Metric)
		if v.oneSeries(row) {
			f.ID, f.Level = HotRow, Danger
			f.say("Salts cannot divide one series: write it less often, or split it by a label.",
				"The series %s takes %.0f %% of %s.", strings.TrimSuffix(f.Start, "#"), 100*share, v.Metric)
		}
		out = append(out, f)
	}
	return out
}

// rangeText names the keys of a range by their common start.
func rangeText(start string) string {
	if start == "" {
		return "The first keys"
	}
	return "Keys from " + start + " on"
}

// isWrite reports whether a metric counts writes.
func isWrite(m heat.Metric) bool { return m <= heat.WriteBytes }

// sequential finds times in which the hottest row moves through the keys in one direction.
func (v *view) sequential() (out []Finding) {
	if !isWrite(v.Metric) || len(v.Starts) < 2*hotOver {
		return nil
	}
	hottest := make([]int, len(v.Values))
	for c, column := range v.Values {
		hottest[c] = -1
		if at := maxOf(column); v.totals[c] >= countMin && column[at]*float64(len(column)) >= hotOver*v.totals[c] {
			hottest[c] = at
		}
	}
	for _, sign := range []int{1, -1} {
		for from := 0; from < len(hottest); {
			to, moves := from+1, 0
			for hottest[from] >= 0 && to < len(hottest) && hottest[to] >= 0 && sign*(hottest[to]-hottest[to-1]) >= 0 {
				if hottest[to] != hottest[to-1] {
					moves++
				}
				to++
			}
			if to-from >= sequentialColumns && moves >= sequentialMoves {
				out = append(out, v.sequentialFinding(hottest, from, to))
			}
			from = to
		}
	}
	return out
}

// without omits the findings of list whose keys and times lie within a finding of explained.
func without(list, explained []Finding) []Finding {
	return slices.DeleteFunc(list, func(f Finding) bool {
		return slices.ContainsFunc(explained, func(by Finding) bool {
			return f.Start >= by.Start && (by.End == "" || f.End != "" && f.End <= by.End) && f.FromMs < by.ToMs && by.FromMs < f.ToMs
		})
	})
}

func (v *view) sequentialFinding(hottest []int, from, to int) Finding {
	low, high := slices.Min(hottest[from:to]), slices.Max(hottest[from:to])
	n, all := 0.0, 0.0
	for c := from; c < to; c++ {
		n += v.Values[c][hottest[c]]
		all += v.totals[c]
	}
	f := Finding{
		ID: SequentialWrites, Level: Warning, FromMs: v.TimesMs[from], ToMs: v.TimesMs[to], Start: v.Starts[low], End: v.end(high),
		Share: n / max(all, 1),
	}
	f.say("Give the metric salts, or promote another tag (docs/schema.md).",
		"The hottest key moves steadily from %s to %s, so one range after the other takes the load. Keys begin "+
			"with something that grows, such as a time or a number.",
		keyOrFirst(v.Starts[hottest[from]]), keyOrFirst(v.Starts[hottest[to-1]]))
	return f
}

func keyOrFirst(key string) string {
	if key == "" {
		return "the first key"
	}
	return key
}

func maxOf(list []float64) (at int) {
	for i, n := range list {
		if n > list[at] {
			at = i
		}
	}
	return at
}

// scans finds columns in which reads touched nearly all ranges, unless that is usual.
func (v *view) scans() (out []Finding) {
	share := make([]float64, len(v.Ranges))
	for c, n := range v.Ranges {
		if n >= scanRanges {
			share[c] = float64(v.Touched[c]) / float64(n)
		}
	}
	if len(share) == 0 {
		return nil
	}
	usual := slices.Clone(share)
	slices.Sort(usual)
	if usual[len(usual)/2] > scanUsual {
		return nil
	}
	v.runs(1, func(c int) bool { return share[c] > scanShare }, func(from, to int) {
		f := Finding{
			ID: FullScan, Level: Warning, FromMs: v.TimesMs[from], ToMs: v.TimesMs[to], Start: v.Starts[0], End: v.End,
			Share: share[from],
		}
		f.say("See /api/v1/status/active_queries and the query log.", "Reads touched %.0f %% of all key ranges. "+
			"A query without a metric, an export or a job reads the whole table.", 100*share[from])
		out = append(out, f)
	})
	return out
}

// saltLoads is the load of a metric by salt.
type saltLoads struct {
	metric     string
	loads      map[string]float64
	largest    map[string]float64 // hottest row of each salt
	start, end string
}

// skew finds metrics with very uneven loads of their salts.
func (v *view) skew() (out []Finding) {
	if v.Metric.IsMax() || v.sum < countMin {
		return nil
	}
	for _, s := range v.salts() {
		sum, most, hottest := 0.0, 0.0, ""
		for salt, n := range s.loads {
			if sum += n; n > most || n == most && salt < hottest {
				most, hottest = n, salt
			}
		}
		// A single hot row is not a fault of the salts.
		row, count := s.largest[hottest], float64(len(s.loads))
		over := (most - row) * count / max(sum-row, 1)
		if count < skewSalts || over < skewOver || sum < skewShare*v.sum {
			continue
		}
		f := Finding{
			ID: SaltSkew, Level: Warning, FromMs: v.TimesMs[0], ToMs: v.TimesMs[len(v.TimesMs)-1], Start: s.start, End: s.end,
			Share: most / sum,
		}
		f.say("The tags that decide the salt have too few values: use \"basis\": \"tags\", or promote a tag with more values "+
			"(docs/schema.md).", "Salt %s of %s has %.1f times the load of a mean salt.", hottest, s.metric, most*count/sum)
		out = append(out, f)
	}
	return out
}

// salts adds up the rows of each metric by salt.
func (v *view) salts() (list []*saltLoads) {
	for row, start := range v.Starts {
		fields := strings.SplitN(start, "#", 3)
		if len(fields) < 3 || fields[1] == "" {
			continue
		}
		if len(list) == 0 || list[len(list)-1].metric != fields[0] {
			list = append(list, &saltLoads{
				metric: fields[0], loads: map[string]float64{}, largest: map[string]float64{}, start: start,
			})
		}
		at := list[len(list)-1]
		n, _ := v.load(row, 0, len(v.Values))
		at.loads[fields[1]] += n
		at.largest[fields[1]] = max(at.largest[fields[1]], n)
		at.end = v.end(row)
	}
	return list
}

// largeRows finds ranges whose rows are large on average.
func (v *view) largeRows() (out []Finding) {
	for row := range v.RowsWritten {
		if v.RowsWritten[row] < 1 {
			continue
		}
		mean := v.BytesWritten[row] / v.RowsWritten[row]
		if mean < largeRow {
			continue
		}
		f := Finding{
			ID: LargeRow, Level: Warning, FromMs: v.TimesMs[0], ToMs: v.TimesMs[len(v.TimesMs)-1], Start: v.Starts[row], End: v.end(row),
		}
		f.say("A row is read as a whole: write fewer samples per hour, or divide the series by a label.",
			"%s have rows of %.0f MiB on average.", rangeText(v.Starts[row]), mean/(1<<20))
		if mean >= hugeRow {
			f.Level = Danger
		}
		out = append(out, f)
	}
	return out
}

// gaps finds columns without any load between others.
func (v *view) gaps() (out []Finding) {
	first, last := slices.Index(v.Missing, false), len(v.Missing)-1
	for last >= 0 && v.Missing[last] {
		last--
	}
	v.runs(1, func(c int) bool { return c > first && c < last && v.Missing[c] }, func(from, to int) {
		f := Finding{ID: Gap, Level: Info, FromMs: v.TimesMs[from], ToMs: v.TimesMs[to], Start: v.Starts[0], End: v.End}
		f.say("The server was down, or there were no writes and no reads.", "Nothing was counted for %s.",
			time.Duration(v.TimesMs[to]-v.TimesMs[from])*time.Millisecond)
		out = append(out, f)
	})
	return out
}
