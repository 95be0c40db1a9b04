package query_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
)

// TestExplain shows explanations without their times. Times count from a day; now is 60 days later.
//
//	write series=3 step=10m    writes series of m_total for 60 days
//	late at=30d                writes one sample to series 1
//	flush, rollup              write the head to the table, compute states
//	explain [nocache] [tiers=off] at=1h | from=0h to=1h step=1m
//	value at=1h                the value itself
func TestExplain(t *testing.T) {
	const days = 60
	clock := new(atomic.Int64)
	clock.Store(tieredFrom + days*dayMs)
	s := openStackWith(t, vfs.NewMem(), stackOptions{tiers: true, clock: clock})
	defer func() { require.NoError(t, s.Close()) }()
	e := cachingEngine(t, s, nil)
	datadriven.RunTest(t, "testdata/explain", func(t *testing.T, d *datadriven.TestData) string {
		ms := func(name string) int64 {
			var text string
			d.MaybeScanArgs(t, name, &text)
			if text == "" {
				return 0
			}
			out, err := time.ParseDuration(text)
			require.NoError(t, err)
			return out.Milliseconds()
		}
		sample := func(i int, ts int64, value float64) ingest.Sample {
			return ingest.Sample{Labels: labels.FromStrings("__name__", "m_total", "i", fmt.Sprint(i)), TsMs: ts, Value: value}
		}
		switch d.Cmd {
		case "write":
			var series int
			d.ScanArgs(t, "series", &series)
			var samples []ingest.Sample
			for i := range series {
				for ts := tieredFrom + int64(i) + 1; ts < clock.Load(); ts += ms("step") {
					samples = append(samples, sample(i, ts, float64(ts%1_000_000)))
				}
			}
			s.write(samples)
		case "late":
			s.write([]ingest.Sample{sample(1, tieredFrom+ms("at"), 5e9)})
		case "flush":
			s.flush()
		case "rollup":
			s.rollUp()
		case "explain", "value":
			p := query.Params{Explain: true, NoCache: d.HasArg("nocache")}
			if d.HasArg("tiers") {
				p.Tiers = query.Off
			}
			from, to, step := tieredFrom+ms("from"), tieredFrom+ms("to"), time.Duration(ms("step"))*time.Millisecond
			if d.HasArg("at") {
				from, to, step = tieredFrom+ms("at"), tieredFrom+ms("at"), time.Second
			}
			res, err := runQuery(e, d.Input, from, to, step, p)
			require.NoError(t, err)
			defer res.Close()
			if d.Cmd == "value" {
				return res.Value.String() + "\n"
			}
			text := res.Explain.String()
			return text[:strings.Index(text, "queue ")]
		}
		return ""
	})
}
