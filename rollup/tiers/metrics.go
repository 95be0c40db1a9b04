package tiers

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// passDeletions is the kind of a pass over states of deleted samples.
const passDeletions = "deletions"

// metrics are the counters of the job and the readers.
type metrics struct {
	series, samples, bytes, failures, marks, corrupt, unreadable, busySeconds prometheus.Counter
	passes                                                                    *prometheus.CounterVec
	passSeries                                                                prometheus.Gauge
}

func newMetrics(r prometheus.Registerer, t *Tiers) (*metrics, error) {
	l, opts := t.ledger, &t.opts
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "tsdb_rollup_" + name, Help: help})
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "tsdb_rollup_" + name, Help: help}, value)
	}
	m := &metrics{
		series:      counter("series_total", "Series whose states were computed, once for each day."),
		samples:     counter("samples_total", "Samples that states were computed from."),
		bytes:       counter("bytes_total", "Bytes of cells written."),
		failures:    counter("failures_total", "Passes that failed; the next run repeats them."),
		marks:       counter("marks_total", "Series and days marked as stale by late or changed samples."),
		corrupt:     counter("corrupt_cells_total", "Cells of states that were damaged; raw samples were read instead."),
		unreadable:  counter("unreadable_rows_total", "Rows of samples that were damaged; their hours have no states."),
		busySeconds: counter("busy_seconds_total", "Time in which the job was at work."),
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdb_rollup_passes_total",
			Help: "Passes that went through, by what they computed: whole or part of a day, states of deleted samples, or a month.",
		}, []string{"kind"}),
		passSeries: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tsdb_rollup_pass_series", Help: "Series computed so far by the pass under way; 0 if none is.",
		}),
	}
	for _, kind := range []string{string(workWhole), string(workPart), passDeletions, "month"} {
		m.passes.WithLabelValues(kind) // there before its first event, which then shows as an increase
	}
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.series, m.samples, m.bytes, m.failures, m.marks, m.corrupt, m.unreadable, m.busySeconds, m.passes,
		m.passSeries,
		gauge("pending_days", "Days of which states are to be computed.", func() float64 { return float64(len(l.view().Days)) }),
		gauge("pending_months", "Months of which states are to be computed, the open one among them.", func() float64 {
			return float64(len(l.view().Months))
		}),
		gauge("pending_deletions", "Deletions that states were not computed anew for.", func() float64 {
			return float64(len(t.waiting()))
		}),
		gauge("lag_seconds", "Age of the oldest day that lacks valid states, counted from its end; 0 if only open days do.",
			func() float64 { return lag(l, opts) }),
		gauge("turn", "1 where rollups are computed: of servers that share tables on the one that holds the lease.", func() float64 {
			if opts.Shared == nil || opts.Shared.Turn() {
				return 1
			}
			return 0
		}),
	} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("rollup metrics: %w", err)
	}
	return m, nil
}

// lag is the age in seconds of the oldest closed day without valid states.
func lag(l *ledger, opts *Options) float64 {
	v := l.view()
	oldest := v.Closed + 1
	for day := range v.Days {
		oldest = min(oldest, day)
	}
	return max(0, float64(opts.Now().UnixMilli()-(oldest+1)*dayMs)/1000)
}
