package comparison

import (
	"fmt"
	"math"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
)

// The samples of the comparison lie in [Start, End], unix seconds, and the clock stands at its end.
const (
	Start       = 1_700_000_100
	End         = Start + 3600
	stepSeconds = 15
)

// Now is the clock of both sides.
func Now() time.Time { return time.Unix(End, 0).UTC() }

// curve is a series of the comparison. It returns the value at step i of the grid, or false if there is no sample.
type curve struct {
	labels labels.Labels
	at     func(i int) (float64, bool)
}

func always(f func(i int) float64) func(int) (float64, bool) {
	return func(i int) (float64, bool) { return f(i), true }
}

// curves are counters with resets, gauges with gaps and extreme values, a classic histogram, and names and values that
// need care in JSON.
func curves() []curve {
	var list []curve
	add := func(at func(int) (float64, bool), pairs ...string) {
		list = append(list, curve{labels.FromStrings(pairs...), at})
	}
	for i, instance := range []string{"a:9100", "b:9100", "c:9100"} {
		add(func(k int) (float64, bool) {
			if i == 2 && k == 100 {
				return math.Float64frombits(value.StaleNaN), true
			}
			return float64((k / 40) % (i + 1)), i != 2 || k < 100 || k > 140
		}, "__name__", "up", "job", "node", "instance", instance)
		for j, code := range []string{"200", "404", "500"} {
			add(always(func(k int) float64 { return float64((k * (i + 1) * (4 - j)) % (900 * (j + 1))) }),
				"__name__", "http_requests_total", "job", "web", "instance", instance, "code", code)
		}
		for j, le := range []string{"0.1", "0.5", "2.5", "+Inf"} {
			add(always(func(k int) float64 { return float64(k * (j + 1) * (i + 2)) }),
				"__name__", "http_request_duration_seconds_bucket", "job", "web", "instance", instance, "le", le)
		}
	}
	add(always(func(k int) float64 { return 20 + 5*math.Sin(float64(k)/20) }), "__name__", "temperature", "room", "hall")
	add(always(func(k int) float64 { return -1e-7 * float64(k) }), "__name__", "temperature", "room", "lab")
	add(always(func(k int) float64 { return 1e21 * float64(k) }), "__name__", "temperature", "room", "sun")
	add(always(func(k int) float64 {
		return []float64{math.Inf(1), math.Inf(-1), math.NaN(), 0, math.Copysign(0, -1)}[k%5]
	}), "__name__", "strange", "path", `C:\<a>&"b"`, "text", "line\nü€𝄞")
	add(always(func(int) float64 { return 1 }), "__name__", "build_info", "version", "1.2.3", "empty", "")
	add(always(func(k int) float64 { return float64(k) }),
		"__name__", "utf8.metric", "label with space", "x", "dot.ted", "y")
	return list
}

// Sample is one value of one series.
type Sample struct {
	Labels labels.Labels
	TsMs   int64
	Value  float64
}

// Samples are all samples of all series.
func Samples() []Sample {
	var list []Sample
	for _, c := range curves() {
		for i := 0; Start+i*stepSeconds <= End; i++ {
			if v, ok := c.at(i); ok {
				ts := int64(Start+i*stepSeconds) * 1000
				list = append(list, Sample{Labels: c.labels.WithoutEmpty(), TsMs: ts, Value: v})
			}
		}
	}
	return list
}

// at returns a time as a parameter. Its argument is in seconds after the start of the comparison.
func at(seconds float64) string { return fmt.Sprintf("%.3f", Start+seconds) }
