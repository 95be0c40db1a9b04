package compaction

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage/index/presence"
)

// TestPlan shows which partitions are due. "after" is the time since the end of the day, and "last" the time since the last
// compaction.
func TestPlan(t *testing.T) {
	datadriven.RunTest(t, "testdata/plan", func(t *testing.T, d *datadriven.TestData) string {
		const day = 20000
		now := time.UnixMilli(keyschema.HourStartMs(presence.FirstHour(day + 1)))
		ago := func(key string) (since time.Duration, given bool) {
			var text string
			if !d.HasArg(key) {
				return 0, false
			}
			d.ScanArgs(t, key, &text)
			since, err := time.ParseDuration(text)
			require.NoError(t, err)
			return since, true
		}
		after, _ := ago("after")
		now = now.Add(after)
		var last time.Time
		if since, given := ago("last"); given {
			last = now.Add(-since)
		}
		switch d.Cmd {
		case "day":
			return fmt.Sprintln(dayDue(day, now, last))
		case "month":
			var daysMin int
			d.ScanArgs(t, "min", &daysMin)
			return fmt.Sprintln(dueDays(scanDays(t, d.Input), daysMin, now, last))
		case "batch":
			var left, batch uint64
			d.ScanArgs(t, "left", &left)
			d.ScanArgs(t, "max", &batch)
			var series []uint64
			for _, word := range strings.Fields(d.Input) {
				var n uint64
				_, err := fmt.Sscan(word, &n)
				require.NoError(t, err)
				series = append(series, n)
			}
			take, more := monthBatch(series, left, batch)
			return fmt.Sprintf("%v more=%v\n", take, more)
		}
		return "unknown command"
	})
}

// scanDays reads lines such as "gen=3 contained=2 skip".
func scanDays(t *testing.T, input string) (days []monthDay) {
	for line := range strings.Lines(input) {
		var d monthDay
		for _, word := range strings.Fields(line) {
			name, value, _ := strings.Cut(word, "=")
			var err error
			switch name {
			case "gen":
				_, err = fmt.Sscan(value, &d.gen)
			case "contained":
				_, err = fmt.Sscan(value, &d.contained)
			case "skip":
				d.skip = true
			default:
				t.Fatalf("unknown word %q", word)
			}
			require.NoError(t, err, line)
		}
		days = append(days, d)
	}
	return days
}
