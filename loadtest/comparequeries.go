package loadtest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// QueryCompared is one dashboard query on all targets.
type QueryCompared struct {
	Name    string        `json:"name"`
	Class   string        `json:"class"`
	Targets []QueryTarget `json:"targets"`
}

// QueryTarget is what one target did with a query.
type QueryTarget struct {
	Target string    `json:"target"`
	Errors int64     `json:"errors"`
	Took   Quantiles `json:"took"`
	// CPUMs is the mean CPU time of the server's process for a call; 0 if it has no pid.
	CPUMs float64 `json:"cpu_ms"`
	// Series and Points of all answers. Differs says how they differ from the first target's, in the first case; empty
	// means that all were the same.
	Series  int    `json:"series"`
	Points  int    `json:"points"`
	Differs string `json:"differs,omitempty"`
}

// compareQueries asks all sides the same questions in turn.
func compareQueries(ctx context.Context, sides []*side, opts CompareOptions) []QueryCompared {
	first := sides[0]
	random := rand.New(rand.NewPCG(first.opts.Fleet.Seed, 78))
	list := dashboards()
	out := make([]QueryCompared, 0, len(list))
	done := 0
	stop := first.progress.phase("queries", func() (float64, float64, string) { return 0, 0, "" })
	for i := range list {
		questions := make([]asked, opts.QueryRepeats)
		for n := range questions {
			questions[n] = list[i].fill(first.fleet, random, first.queryEndMs()-int64(n)*1000)
		}
		out = append(out, compareQuery(ctx, sides, &list[i], questions, opts.Tolerance))
		done++
	}
	stop()
	return out
}

func compareQuery(ctx context.Context, sides []*side, q *query, questions []asked, tolerance float64) QueryCompared {
	out := QueryCompared{Name: q.name, Class: q.class, Targets: make([]QueryTarget, len(sides))}
	took := make([]latencies, len(sides))
	var reference []any
	for i, s := range sides {
		t := &out.Targets[i]
		t.Target = s.target.Name
		before, errBefore := readProcess(s.target.PID)
		var answers []any
		for _, question := range questions {
			began := s.opts.Now()
			body, err := s.reader.get(ctx, question.path, question.params)
			d := s.opts.Now().Sub(began)
			var parsed any
			if err == nil {
				parsed, err = parseAnswer(body, q.label != "")
			}
			answers = append(answers, parsed)
			if err != nil {
				t.Errors++
				t.Differs = err.Error()
				continue
			}
			took[i].add(d)
			series, points := sizeOf(parsed)
			t.Series, t.Points = t.Series+series, t.Points+points
		}
		if after, err := readProcess(s.target.PID); s.target.PID > 0 && err == nil && errBefore == nil {
			t.CPUMs = (after.cpuSeconds - before.cpuSeconds) * 1e3 / float64(len(questions))
		}
		t.Took = took[i].quantiles()
		if i == 0 {
			reference = answers
			continue
		}
		for n := range answers {
			if text := differ(reference[n], answers[n], tolerance); text != "" && t.Differs == "" {
				t.Differs = fmt.Sprintf("%s (%s)", text, questions[n].describe())
			}
		}
	}
	return out
}

// matrix is an answer by the text of its labels.
type matrix map[string][]point

// parseAnswer returns a []string for a look-up, else a matrix.
func parseAnswer(body []byte, lookup bool) (any, error) {
	data, err := openEnvelope(body)
	if err != nil {
		return nil, err
	}
	if lookup {
		var names []string
		if err := json.Unmarshal(data, &names); err != nil {
			return nil, fmt.Errorf("answer of a look-up: %w", err)
		}
		slices.Sort(names)
		return names, nil
	}
	list, err := parseResults(data)
	if err != nil {
		return nil, err
	}
	m := make(matrix, len(list))
	for _, r := range list {
		key, err := json.Marshal(r.Metric) // keys of maps are sorted
		if err != nil {
			return nil, err
		}
		if r.Value != nil {
			r.Values = append(r.Values, *r.Value)
		}
		m[string(key)] = r.Values
	}
	return m, nil
}

func sizeOf(answer any) (series, points int) {
	switch a := answer.(type) {
	case []string:
		return len(a), len(a)
	case matrix:
		for _, values := range a {
			points += len(values)
		}
		return len(a), points
	}
	return 0, 0
}

// differ says in words how b differs from a; "" if it does not.
func differ(a, b any, tolerance float64) string {
	switch want := a.(type) {
	case []string:
		got, ok := b.([]string)
		if !ok || !slices.Equal(want, got) {
			return fmt.Sprintf("%d values, %d in the first", len(got), len(want))
		}
	case matrix:
		got, ok := b.(matrix)
		if !ok {
			return "no answer"
		}
		return differMatrix(want, got, tolerance)
	case nil:
		if b != nil {
			return "the first target did not answer"
		}
	}
	return ""
}

func differMatrix(want, got matrix, tolerance float64) string {
	missing, extra, unpaired, off, worst := 0, 0, 0, 0, 0.0
	for key, points := range want {
		if _, ok := got[key]; !ok {
			missing++
			continue
		}
		theirs := make(map[int64]float64, len(got[key]))
		for _, p := range got[key] {
			theirs[p.tsMs] = p.value
		}
		for _, p := range points {
			v, ok := theirs[p.tsMs]
			switch d := relative(p.value, v); {
			case !ok:
				unpaired++
			case d > tolerance:
				off++
				worst = max(worst, d)
			}
		}
		unpaired += max(len(got[key])-len(points), 0)
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			extra++
		}
	}
	var parts []string
	if missing+extra > 0 {
		parts = append(parts, fmt.Sprintf("series −%d +%d", missing, extra))
	}
	if unpaired > 0 {
		parts = append(parts, fmt.Sprintf("%d points unpaired", unpaired))
	}
	if off > 0 {
		parts = append(parts, fmt.Sprintf("%d points off by up to %.1g", off, worst))
	}
	return strings.Join(parts, ", ")
}

// relative is the difference of two values over the larger; equal bits, and two NaNs, do not differ.
func relative(a, b float64) float64 {
	if a == b || math.IsNaN(a) && math.IsNaN(b) {
		return 0
	}
	d := math.Abs(a-b) / max(math.Abs(a), math.Abs(b))
	if math.IsNaN(d) || math.IsInf(d, 0) {
		return 1
	}
	return d
}
