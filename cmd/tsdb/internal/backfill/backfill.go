package backfill

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	promrules "github.com/prometheus/prometheus/rules"

	"halite/cmd/tsdb/internal/client"
	"halite/cmd/tsdb/internal/rules"
	"halite/cmd/tsdb/internal/transfer"
	"halite/ingest/batch"
	"halite/ingest/remotewrite"
)

const (
	// stepsMax bounds the evaluations of a rule in one query. The default of --query.max-points is larger.
	stepsMax = 5000
	// partSamples is the number of samples of a write.
	partSamples = 20_000
	// retryFor is the time for which a request is retried.
	retryFor = 5 * time.Minute
)

// group is a rule group with its recording rules. Its evaluations are at baseMs plus multiples of intervalMs.
type group struct {
	file, name         string
	baseMs, intervalMs int64
	limit              int
	rules              []*rule
}

// rule is a recording rule with the progress of the command.
type rule struct {
	name   string
	expr   parser.Expr
	labels labels.Labels
	last   map[string]labels.Labels // series at the previous evaluation; nil before the first one
	series map[uint64]struct{}      // hashes of the labels of all series
	report ruleReport
}

// backfill evaluates rules over the past.
type backfill struct {
	server       *client.Server
	remote       *transfer.Remote
	groups       []*group
	fromMs, toMs int64
	windowMs     int64
	circular     bool
	dryRun       bool
	done         func(evaluations int64)
	part         transfer.Part
}

// newGroups returns the groups with recording rules, and the number of alerting rules. Evaluations have the same times as on
// a server with these files. interval is for groups without one.
func newGroups(files *rules.Files, interval time.Duration, fromMs int64) (out []*group, alerting int, err error) {
	for _, path := range files.Paths {
		for _, theirs := range files.Groups(path) {
			g := &group{file: path, name: theirs.Name, limit: theirs.Limit}
			every := interval
			if theirs.Interval != 0 {
				every = time.Duration(theirs.Interval)
			}
			slots := promrules.NewGroup(promrules.GroupOptions{Name: g.name, File: path, Interval: every})
			g.intervalMs, g.baseMs = every.Milliseconds(), slots.EvalTimestamp(fromMs*1e6).UnixMilli()
			if theirs.QueryOffset != nil {
				g.baseMs -= time.Duration(*theirs.QueryOffset).Milliseconds()
			}
			for i := range theirs.Rules {
				r := &theirs.Rules[i]
				if r.Alert != "" {
					alerting++
					continue
				}
				expr, err := files.Parse(r.Expr)
				if err != nil {
					return nil, 0, fmt.Errorf("%s: group %q, rule %q: %w", path, g.name, r.Record, err)
				}
				g.rules = append(g.rules, &rule{
					name: r.Record, expr: expr, labels: promrules.FromMaps(theirs.Labels, r.Labels), series: make(map[uint64]struct{}),
					report: ruleReport{File: path, Group: g.name, Rule: r.Record},
				})
			}
			if len(g.rules) > 0 {
				out = append(out, g)
			}
		}
	}
	return out, alerting, nil
}

// evaluations returns the first and the last evaluation within [fromMs, toMs], and their number.
func (g *group) evaluations(fromMs, toMs int64) (firstMs, lastMs, count int64) {
	firstMs = g.baseMs + (fromMs-g.baseMs+g.intervalMs-1)/g.intervalMs*g.intervalMs
	if firstMs > toMs {
		return 0, 0, 0
	}
	count = (toMs-firstMs)/g.intervalMs + 1
	return firstMs, firstMs + (count-1)*g.intervalMs, count
}

// arrange orders the groups, and fits the window to them.
func (b *backfill) arrange(window time.Duration) {
	b.groups, b.circular = ordered(b.groups)
	b.windowMs = window.Milliseconds()
	for _, g := range b.groups {
		if b.circular {
			b.windowMs = min(b.windowMs, g.intervalMs)
		}
		b.windowMs = min(b.windowMs, stepsMax*g.intervalMs)
	}
}

// work returns the number of evaluations of all rules.
func (b *backfill) work() (n int64) {
	for _, g := range b.groups {
		_, _, count := g.evaluations(b.fromMs, b.toMs)
		n += count * int64(len(g.rules))
	}
	return n
}

// run evaluates all rules window by window, and in the order of the groups within a window.
func (b *backfill) run(ctx context.Context) error {
	for fromMs := b.fromMs; fromMs <= b.toMs; fromMs += b.windowMs {
		toMs := min(fromMs+b.windowMs-1, b.toMs)
		for _, g := range b.groups {
			firstMs, lastMs, count := g.evaluations(fromMs, toMs)
			if count == 0 {
				continue
			}
			for _, r := range g.rules {
				if err := b.evaluate(ctx, g, r, firstMs, lastMs); err != nil {
					return fmt.Errorf("%s: group %q, rule %q, %s to %s: %w", g.file, g.name, r.name,
						timeText(firstMs), timeText(lastMs), err)
				}
				b.done(count)
			}
		}
	}
	return nil
}

func timeText(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// evaluate evaluates a rule from firstMs to lastMs and writes its results. They are durable when it returns.
func (b *backfill) evaluate(ctx context.Context, g *group, r *rule, firstMs, lastMs int64) error {
	matrix, err := b.query(ctx, r.expr.String(), firstMs, lastMs, g.intervalMs)
	if err != nil {
		return err
	}
	results, err := r.results(matrix)
	if err != nil {
		return err
	}
	if err := checkLimit(results, g.limit); err != nil {
		return err
	}
	for key, ls := range r.last {
		if results[key] == nil {
			results[key] = &result{labels: ls}
		}
	}
	b.part.Reset(batch.Bounds{ItemsMax: math.MaxInt32})
	last := make(map[string]labels.Labels)
	for key, s := range results {
		r.series[s.labels.Hash()] = struct{}{}
		if err := b.part.Begin(remotewrite.AppendFields(nil, s.labels)); err != nil {
			return err
		}
		_, present := r.last[key]
		for ms := firstMs; ms <= lastMs; ms += g.intervalMs {
			v, ok := s.points[ms]
			switch {
			case ok:
				b.part.Sample(remotewrite.Sample{TsMs: ms, Value: v})
				r.report.Samples++
			case present:
				b.part.Sample(remotewrite.Sample{TsMs: ms, Value: math.Float64frombits(value.StaleNaN)})
				r.report.StaleMarkers++
			}
			present = ok
		}
		if present {
			last[key] = s.labels
		}
		if b.part.Count() >= partSamples {
			if err := b.flush(ctx); err != nil {
				return err
			}
		}
	}
	r.last, r.report.Series = last, len(r.series)
	return b.flush(ctx)
}

// flush writes the part.
func (b *backfill) flush(ctx context.Context) error {
	defer b.part.Reset(batch.Bounds{ItemsMax: math.MaxInt32})
	if b.dryRun || b.part.Count() == 0 {
		return nil
	}
	stored, err := b.remote.Write(ctx, &b.part)
	if err == nil && stored.Rejected > 0 {
		err = errors.New(stored.Summary())
	}
	return err
}

// result is a series of the results of a rule.
type result struct {
	labels labels.Labels
	points map[int64]float64 // by milliseconds since 1970
}

// results gives the series of a response the labels of the rule. Two series that become one must not have points at the same
// time.
func (r *rule) results(matrix model.Matrix) (map[string]*result, error) {
	out := make(map[string]*result)
	for _, s := range matrix {
		if len(s.Histograms) > 0 {
			return nil, errors.New("the result has native histograms, which the API rounds; only a running rule can record them")
		}
		lb := labels.NewBuilder(labels.EmptyLabels())
		for name, v := range s.Metric {
			lb.Set(string(name), string(v))
		}
		lb.Set(model.MetricNameLabel, r.name)
		r.labels.Range(func(l labels.Label) { lb.Set(l.Name, l.Value) })
		ls := lb.Labels()
		key := ls.String()
		if out[key] == nil {
			out[key] = &result{labels: ls, points: make(map[int64]float64, len(s.Values))}
		}
		for _, p := range s.Values {
			if _, twice := out[key].points[int64(p.Timestamp)]; twice {
				return nil, fmt.Errorf("the result has %s twice at %s after the labels of the rule are set", key,
					timeText(int64(p.Timestamp)))
			}
			out[key].points[int64(p.Timestamp)] = float64(p.Value)
		}
	}
	return out, nil
}

// checkLimit returns an error if an evaluation has more series than the limit of the group; 0 means no limit.
func checkLimit(results map[string]*result, limit int) error {
	if limit <= 0 || len(results) <= limit {
		return nil
	}
	counts := make(map[int64]int)
	for _, s := range results {
		for ms := range s.points {
			if counts[ms]++; counts[ms] > limit {
				return fmt.Errorf("the result at %s exceeds the limit of %d series of the group", timeText(ms), limit)
			}
		}
	}
	return nil
}

// query sends a range query. It repeats the request while the server has no room for it or restarts.
func (b *backfill) query(ctx context.Context, text string, firstMs, lastMs, stepMs int64) (model.Matrix, error) {
	seconds := func(ms int64) string { return strconv.FormatFloat(float64(ms)/1000, 'f', 3, 64) }
	form := url.Values{
		"query": {text}, "start": {seconds(firstMs)}, "end": {seconds(lastMs)}, "step": {seconds(stepMs)}, "nocache": {"true"},
	}
	var data struct{ Result model.Matrix }
	err := client.Retry(ctx, retryFor, func() error {
		return b.server.Call(ctx, http.MethodPost, "/api/v1/query_range", form, &data)
	})
	return data.Result, err
}
