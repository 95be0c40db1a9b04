package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/prometheus/prometheus/prompb"

	"halite/keyschema"
	"halite/loadtest/fleet"
)

const (
	// findingsMax missing or different samples are named in the report.
	findingsMax = 10
	// windowSamples is about how many samples one read asks for.
	windowSamples = 500_000
)

// Verification is the outcome of reading back what was acknowledged.
type Verification struct {
	// Through is how the server was read: "remote read" or "range selectors".
	Through string `json:"through"`
	// Checked samples were acknowledged and looked for. Missing ones are not there. Different ones have a value that no
	// acknowledged write explains; of these, CloseBy ones are off by less than 1e-9 of the value, as on a server that
	// rounds.
	Checked   int64 `json:"checked_samples"`
	Missing   int64 `json:"missing_samples"`
	Different int64 `json:"different_samples"`
	CloseBy   int64 `json:"close_by_samples"`
	// Doubtful samples were sent and never acknowledged, and are not looked for; Extra ones are there at timestamps
	// that this load did not write, or twice.
	Doubtful int64 `json:"doubtful_samples"`
	Extra    int64 `json:"extra_samples"`
	// Findings names the first few missing and different samples.
	Findings []string `json:"findings,omitempty"`
	// Error is set if the reading itself failed; the figures then cover a part.
	Error string `json:"error,omitempty"`
}

// Passed reports whether every acknowledged sample was read back as it was written.
func (v *Verification) Passed() bool {
	return v.Error == "" && v.Missing == 0 && v.Different == 0
}

// add takes the counts of another part.
func (v *Verification) add(other *Verification) {
	v.Checked += other.Checked
	v.Missing += other.Missing
	v.Different += other.Different
	v.CloseBy += other.CloseBy
	v.Doubtful += other.Doubtful
	v.Extra += other.Extra
	for _, f := range other.Findings {
		if len(v.Findings) < findingsMax {
			v.Findings = append(v.Findings, f)
		}
	}
}

func (v *Verification) find(format string, args ...any) {
	if len(v.Findings) < findingsMax {
		v.Findings = append(v.Findings, fmt.Sprintf(format, args...))
	}
}

// verifier makes the fleet once more and compares it with what the server has.
type verifier struct {
	fleet    *fleet.Fleet
	timeline *timeline
	disorder disorder
	ledger   *ledger
	reader   *reader
	share    float64      // of the units
	done     atomic.Int64 // units
	selector atomic.Bool  // remote read is not there: range selectors instead
}

// run reads back with some requests at a time.
func (v *verifier) run(ctx context.Context, loops int) *Verification {
	var units []int
	for u := range v.fleet.Units() {
		if fleet.Unit01(fleet.Mix(v.disorder.seed, uint64(u), 99)) < v.share {
			units = append(units, u)
		}
	}
	total := &Verification{}
	var mu sync.Mutex
	var next atomic.Int64
	var loopsDone sync.WaitGroup
	for range max(loops, 1) {
		loopsDone.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(units) || ctx.Err() != nil {
					return
				}
				part, err := v.unit(ctx, units[i])
				mu.Lock()
				total.add(part)
				if err != nil && total.Error == "" {
					total.Error = err.Error()
				}
				stop := total.Error != ""
				mu.Unlock()
				v.done.Add(1)
				if stop {
					return
				}
			}
		})
	}
	loopsDone.Wait()
	if err := ctx.Err(); err != nil && total.Error == "" {
		total.Error = "interrupted"
	}
	total.Through = "remote read"
	if v.selector.Load() {
		total.Through = "range selectors"
	}
	return total
}

// expected is what one series of a unit should have in a window.
type expected struct {
	series fleet.Series
	slot   int
	values []float64 // of the steps from first on
	first  int
}

// unit checks one unit, window by window; a window ends where the unit's series get other names.
func (v *verifier) unit(ctx context.Context, number int) (*Verification, error) {
	total := &Verification{}
	unit, firstSlot := v.fleet.Unit(number), v.fleet.SlotsBefore(number)
	var window []expected
	check := func() error {
		if len(window) == 0 || len(window[0].values) == 0 {
			return nil
		}
		part, err := v.window(ctx, number, unit.Generation(), firstSlot, window)
		total.add(part)
		return err
	}
	for step := range v.timeline.begun() {
		if window != nil && v.fleet.Renewed(number, step) {
			if err := check(); err != nil {
				return total, err
			}
			window = nil
		}
		values, _ := unit.Step()
		if window == nil || len(window)*len(window[0].values) >= windowSamples {
			if err := check(); err != nil {
				return total, err
			}
			window = newWindow(unit.Series(), firstSlot, step)
		}
		for i, value := range values {
			window[i].values = append(window[i].values, value)
		}
	}
	return total, check()
}

func newWindow(names []fleet.Series, firstSlot, step int) []expected {
	window := make([]expected, len(names))
	for i := range window {
		window[i] = expected{series: names[i], slot: firstSlot + i, first: step}
	}
	return window
}

// window reads the series of a window and compares them.
func (v *verifier) window(ctx context.Context, unit, gen, firstSlot int, window []expected) (*Verification, error) {
	part := &Verification{}
	last := window[0].first + len(window[0].values) - 1
	fromMs, toMs := v.timeline.tsMs(firstSlot, window[0].first), v.timeline.tsMs(firstSlot, last)
	found, err := v.readAgain(ctx, unit, gen, fromMs, toMs)
	if err != nil {
		return part, fmt.Errorf("reading %s back: %w", v.fleet.Instance(unit, gen), err)
	}
	for i := range window {
		key := string(appendSeriesLabels(nil, window[i].series))
		v.compare(part, &window[i], firstSlot, found[key])
		delete(found, key)
	}
	for _, points := range found {
		part.Extra += int64(len(points))
	}
	return part, nil
}

// readTries bounds the tries of one read.
const readTries = 5

// readAgain reads, and once more after a pause if the server is too busy or the connection breaks.
func (v *verifier) readAgain(ctx context.Context, unit, gen int, fromMs, toMs int64) (map[string][]point, error) {
	wait := retryWaitMin
	for try := 1; ; try++ {
		found, err := v.read(ctx, unit, gen, fromMs, toMs)
		var status *statusError
		if err == nil || try == readTries || ctx.Err() != nil || errors.As(err, &status) && !busy(status.code) {
			return found, err
		}
		sleep(ctx, wait)
		wait = min(4*wait, retryWaitMax)
	}
}

func busy(code int) bool {
	return code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests
}

// read returns the samples of a unit by the encoded labels of its series, through remote read if the server has it.
func (v *verifier) read(ctx context.Context, unit, gen int, fromMs, toMs int64) (map[string][]point, error) {
	instance, job := v.fleet.Instance(unit, gen), v.fleet.Options().Job
	if !v.selector.Load() {
		found, err := v.readRemote(ctx, instance, job, fromMs, toMs)
		var status *statusError
		if err == nil || !errors.As(err, &status) || busy(status.code) {
			return found, err
		}
		v.selector.Store(true)
	}
	list, err := v.reader.rawSamples(ctx, fmt.Sprintf("{instance=%s,job=%s}", quote(instance), quote(job)), fromMs, toMs)
	if err != nil {
		return nil, err
	}
	found := make(map[string][]point, len(list))
	for _, r := range list {
		s := fleet.Series{Metric: r.Metric[metricLabel]}
		for name, value := range r.Metric {
			if name != metricLabel {
				s.Tags = append(s.Tags, keyschema.Tag{Name: name, Value: value})
			}
		}
		sort.Slice(s.Tags, func(i, j int) bool { return s.Tags[i].Name < s.Tags[j].Name })
		found[string(appendSeriesLabels(nil, s))] = r.Values
	}
	return found, nil
}

func (v *verifier) readRemote(ctx context.Context, instance, job string, fromMs, toMs int64) (map[string][]point, error) {
	labels := []prompb.Label{{Name: "instance", Value: instance}, {Name: "job", Value: job}}
	result, err := v.reader.remoteRead(ctx, labels, fromMs, toMs)
	if err != nil {
		return nil, err
	}
	found := make(map[string][]point, len(result.Timeseries))
	var key []byte
	for _, ts := range result.Timeseries {
		key = key[:0]
		for _, l := range ts.Labels {
			key = appendLabel(key, l.Name, l.Value)
		}
		points := make([]point, len(ts.Samples))
		for i, s := range ts.Samples {
			points[i] = point{s.Timestamp, s.Value}
		}
		found[string(key)] = points
	}
	return found, nil
}

// compare walks the steps of a series and the samples found, both in the order of time.
func (v *verifier) compare(part *Verification, e *expected, firstSlot int, found []point) {
	for i, value := range e.values {
		step := e.first + i
		tsMs := v.timeline.tsMs(firstSlot, step)
		for len(found) > 0 && found[0].tsMs < tsMs {
			part.Extra++
			found = found[1:]
		}
		there := len(found) > 0 && found[0].tsMs == tsMs
		var got float64
		for n := 0; len(found) > 0 && found[0].tsMs == tsMs; n++ {
			got, found = found[0].value, found[1:]
			if n > 0 {
				part.Extra++
			}
		}
		w := v.ledger.look(e.slot, step)
		switch {
		case !w.first && !w.second:
			if w.doubt {
				part.Doubtful++
			} else if there {
				part.Extra++
			}
		case !there:
			part.Checked++
			part.Missing++
			part.find("missing: %s at %d: wrote %v", describeSeries(e.series), tsMs, value)
		default:
			part.Checked++
			v.compareValue(part, e, step, w, tsMs, got, value)
		}
	}
	part.Extra += int64(len(found))
}

func (v *verifier) compareValue(part *Verification, e *expected, step int, w written, tsMs int64, got, first float64) {
	second := v.fleet.Rewritten(e.slot, step, first)
	how, _ := v.disorder.of(e.slot, step)
	mayFirst := !w.second || w.doubt
	maySecond := how == rewritten && (w.second || w.doubt)
	same := func(x float64) bool { return math.Float64bits(got) == math.Float64bits(x) }
	near := func(x float64) bool { return math.Abs(got-x) <= 1e-9*math.Abs(x) }
	if mayFirst && same(first) || maySecond && same(second) {
		return
	}
	part.Different++
	if mayFirst && near(first) || maySecond && near(second) {
		part.CloseBy++
	}
	want := first
	if w.second {
		want = second
	}
	part.find("different: %s at %d: wrote %v, read %v", describeSeries(e.series), tsMs, want, got)
}

// describeSeries writes a series as PromQL has it.
func describeSeries(s fleet.Series) string {
	text := s.Metric + "{"
	for i, t := range s.Tags {
		if i > 0 {
			text += ","
		}
		text += t.Name + "=" + quote(t.Value)
	}
	return text + "}"
}
