package resultcache

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/query/expression"
)

// changedOnce reports one range of changed samples to readers of older generations.
type changedOnce struct {
	generation   uint64
	fromMs, toMs int64
}

func (c *changedOnce) Generation() uint64 { return c.generation }

func (c *changedOnce) ChangedSince(generation uint64, fromMs, toMs int64) (int64, int64, bool) {
	if generation >= c.generation || c.toMs < fromMs || c.fromMs > toMs {
		return 0, 0, false
	}
	return max(c.fromMs, fromMs), min(c.toMs, toMs), true
}

// decisionsStart is the time that the cases count from.
var decisionsStart = time.Date(2024, 1, 20, 0, 0, 0, 0, time.UTC)

// TestDecisions shows what the cache does for each request of a sequence. Times count from a day.
//
//	query from=0h to=1h step=1m    asks for a range and caches the result
//	query at=1h                    asks for one time
//	change from=0h to=1h           changes samples
//	reset [retention=1h] [recent=5m] begins with an empty cache, at 24h
func TestDecisions(t *testing.T) {
	changes := new(changedOnce)
	var cache *Cache
	datadriven.RunTest(t, "testdata/decisions", func(t *testing.T, d *datadriven.TestData) string {
		duration := func(name string) time.Duration {
			if !d.HasArg(name) {
				return 0
			}
			var text string
			d.ScanArgs(t, name, &text)
			out, err := time.ParseDuration(text)
			require.NoError(t, err)
			return out
		}
		switch d.Cmd {
		case "reset":
			var err error
			*changes = changedOnce{}
			cache, err = New(Options{
				Changes: changes, BytesMax: 32 << 20, Recent: duration("recent"), Retention: keyschema.KeepFor(duration("retention")),
				Now: func() time.Time { return decisionsStart.Add(24 * time.Hour) },
			})
			require.NoError(t, err)
			return ""
		case "change":
			changes.generation++
			changes.fromMs = decisionsStart.Add(duration("from")).UnixMilli()
			changes.toMs = decisionsStart.Add(duration("to")).UnixMilli()
			return ""
		}
		e := expression.Expression{Text: d.Input, Start: decisionsStart.Add(duration("from")), End: decisionsStart.Add(duration("to"))}
		if d.HasArg("at") {
			e.Start = decisionsStart.Add(duration("at"))
			e.End = e.Start
		} else {
			e.IsRange, e.Step = true, duration("step")
		}
		return decide(t, cache, e)
	})
}

// decide looks a request up, caches a made-up result, and describes what happened.
func decide(t *testing.T, c *Cache, e expression.Expression) string {
	p := parser.NewParser(parser.Options{})
	q, err := c.Begin(p, e, 5*time.Minute, 60_000, nil)
	require.NoError(t, err)
	q.Find()
	outcome := q.Outcome
	var b strings.Builder
	fmt.Fprintf(&b, "%s", outcome)
	for _, part := range q.Parts {
		if !part.Cached && part.To > part.From && outcome != outcomeHit {
			fmt.Fprintf(&b, "; evaluate steps %d to %d of %d", part.From, part.To-1, q.Steps)
		}
	}
	m := promql.Matrix{{Metric: labels.FromStrings("i", "1")}}
	for k := range q.Steps {
		m[0].Floats = append(m[0].Floats, promql.FPoint{T: q.At(k), F: 1})
	}
	if e.IsRange {
		q.Keep(m, true)
	} else {
		q.Keep(promql.Vector{{Metric: m[0].Metric, T: q.At(0), F: 1}}, true)
	}
	q.Finish()
	if q.Why != SkipNone {
		fmt.Fprintf(&b, "; not cached: %s", q.Why)
	}
	if e.IsRange && q.Shape != nil && !q.Shape.sliding {
		fmt.Fprintf(&b, "; the same range only: %s", q.Shape.WhySliding)
	}
	return b.String() + "\n"
}
