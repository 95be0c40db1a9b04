package facts

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"halite/api/doctor"
	"halite/api/senders"
	"halite/ingest"
	"halite/keyschema"
	"halite/storage/keyviz"
	"halite/storage/keyviz/diagnosis"
	"halite/storage/keyviz/heat"
)

const (
	// heatWindow is the time whose load is diagnosed. Findings that ended before heatRecent are over.
	heatWindow, heatRecent = 6 * time.Hour, time.Hour
	// loadWindow is the time in which the collector looks for the busiest minute of a metric. It is longer than an hour,
	// because the rows of an hour are flushed together.
	loadWindow = 2 * time.Hour
	// sendersMax, wideMax and metricsMax bound the facts of a kind.
	sendersMax, wideMax, metricsMax = 1000, 10, 100
)

// Facts collects the current facts.
func (c *Collector) Facts(ctx context.Context) (*doctor.Facts, error) {
	values, err := c.sample()
	if err != nil {
		return nil, err
	}
	now := c.opts.Now()
	f := &doctor.Facts{
		NowMs: now.UnixMilli(), StartMs: c.started.UnixMilli(), Ready: true, Values: values, HeatOff: c.opts.Keyviz == nil,
	}
	if c.opts.Ready != nil {
		f.Ready, f.NotReady = c.opts.Ready()
	}
	c.remembered(f)
	c.limits(f)
	c.senders(f)
	if c.opts.WideRows != nil {
		for _, r := range c.opts.WideRows(wideMax) {
			f.WideRows = append(f.WideRows, doctor.WideRow(r))
		}
	}
	if c.opts.Keyviz != nil {
		if err := c.load(ctx, f); err != nil {
			return nil, fmt.Errorf("read the key heat map: %w", err)
		}
	}
	return f, nil
}

// remembered adds the facts that the rings hold.
func (c *Collector) remembered(f *doctor.Facts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	oldest := c.minutes[0]
	// Counters start at 0 with the server.
	base, fromMs := map[string]float64(nil), f.StartMs
	if oldest.tsMs-f.StartMs > time.Minute.Milliseconds() {
		base, fromMs = oldest.values, oldest.tsMs
	}
	f.Window = time.Duration(f.NowMs-fromMs) * time.Millisecond
	f.Increases = make(map[string]float64)
	for _, name := range doctor.Counters() {
		f.Increases[name] = max(0, f.Values[name]-base[name])
	}
	f.FlushedMs = c.flushedMs
	f.Disk = slices.Clone(c.disk)
	if len(c.disk) > 0 {
		if d, ok := c.measureDisk(f.NowMs); ok {
			f.Disk = append(f.Disk, d)
		}
	}
	if c.opts.Sizes != nil {
		f.Cardinality = grown(&c.sizes[0], c.measureIndex(f.NowMs))
	}
}

// grown compares the sizes of the index at two times.
func grown(before *sizes, now sizes) doctor.Cardinality {
	out := doctor.Cardinality{
		SeriesBefore: before.series, SeriesNow: now.series, Window: time.Duration(now.tsMs-before.tsMs) * time.Millisecond,
	}
	out.Label, out.ValuesBefore, out.ValuesNow = fastest(before.labels, now.labels)
	out.Metric, out.MetricBefore, out.MetricNow = fastest(before.metrics, now.metrics)
	return out
}

// fastest returns the name whose count has grown most; "" if none has.
func fastest(before, now map[string]int) (name string, old, new int) {
	for _, n := range slices.Sorted(maps.Keys(now)) {
		if now[n]-before[n] > new-old {
			name, old, new = n, before[n], now[n]
		}
	}
	return name, old, new
}

// limits adds the limits of writes.
func (c *Collector) limits(f *doctor.Facts) {
	if c.opts.SeriesLimits == nil {
		return
	}
	status := c.opts.SeriesLimits(metricsMax)
	add := func(name string, inBytes bool, u ingest.LimitUse, fix string) {
		if u.Max > 0 && !u.DryRun {
			f.Limits = append(f.Limits, doctor.Limit{Name: name, Bytes: inBytes, Used: float64(u.Used), Max: float64(u.Max), Fix: fix})
		}
	}
	add("active series", false, status.Series, "--ingest.max-series=0")
	add("memory of active series", true, status.MemoryBytes, "--storage.head-total-bytes=8GB")
	add("samples a second", false, status.SamplesPerSecond, "limits: {samples_per_second: {max: 0}}")
	for _, m := range status.Metrics {
		add("series of metric "+m.Metric, false, m.LimitUse,
			fmt.Sprintf("limits: {series_per_metric: [{pattern: %q, max: 0}]}", m.Metric))
	}
}

// senders adds what was refused, and senders whose clocks are ahead.
func (c *Collector) senders(f *doctor.Facts) {
	if c.opts.Senders == nil {
		return
	}
	for _, r := range c.opts.Senders.Refusals() {
		fix := r.Fix()
		out := doctor.Refusal{
			What: r.What(), Reason: r.Reason, Words: fix.Words, Line: fix.Line, Where: fix.Where, From: nameOf(r.From),
			Example: r.Last.Message,
			Temporary: slices.Contains([]string{
				senders.ReasonOverload, senders.ReasonUnavailable, senders.ReasonNotReady, senders.ReasonInternal,
			}, r.Reason),
			Stored: slices.Contains([]string{ingest.ReasonRounded, ingest.ReasonMerged, ingest.ReasonUnsupportedStart}, r.Reason),
		}
		if r.Reason == ingest.ReasonTooFarAhead {
			f.Skews = append(f.Skews, doctor.Skew{From: out.From, Refused: true})
		}
		f.Refusals = append(f.Refusals, out)
	}
	list, _ := c.opts.Senders.List(sendersMax)
	slices.SortStableFunc(list, func(a, b senders.Status) int { return cmp.Compare(b.AheadMs, a.AheadMs) })
	for _, s := range list {
		if s.AheadMs > 0 && c.opts.Now().Sub(s.LastTime) < time.Hour {
			f.Skews = append(f.Skews, doctor.Skew{From: nameOf(s.Sender), Ahead: time.Duration(s.AheadMs) * time.Millisecond})
		}
	}
}

func nameOf(s senders.Sender) string {
	if s.UserAgent == "" {
		return s.Address
	}
	return s.Address + " (" + s.UserAgent + ")"
}

// load adds the diagnosis of the key heat map, and the load of metrics.
func (c *Collector) load(ctx context.Context, f *doctor.Facts) error {
	seen := map[[2]string]bool{}
	for _, load := range []heat.Metric{heat.WriteCells, heat.ReadRows} {
		m, err := c.opts.Keyviz.Map(ctx, keyviz.Request{FromMs: f.NowMs - heatWindow.Milliseconds(), ToMs: f.NowMs + 1, Metric: load})
		if err != nil {
			return err
		}
		for _, found := range diagnosis.Find(m, 0) {
			// The checks of rows and of limits have better figures.
			over := found.ToMs < f.NowMs-heatRecent.Milliseconds()
			if over || found.ID == diagnosis.Gap || found.ID == diagnosis.LargeRow || seen[[2]string{found.ID, found.Start}] {
				continue
			}
			seen[[2]string{found.ID, found.Start}] = true
			f.Heat = append(f.Heat, c.heatOf(m, &found))
		}
	}
	loads := map[string][]float64{}
	for _, load := range []heat.Metric{heat.WriteRows, heat.ReadRows} {
		m, err := c.opts.Keyviz.Map(ctx, keyviz.Request{
			FromMs: f.NowMs - loadWindow.Milliseconds(), ToMs: f.NowMs + 1, Metric: load, Rows: keyviz.RowsMax,
		})
		if err != nil {
			return err
		}
		addLoads(loads, m)
	}
	c.metrics(f, loads)
	return nil
}

// heatOf is a finding with the metric of its keys and its rate.
func (c *Collector) heatOf(m *keyviz.Map, found *diagnosis.Finding) doctor.Heat {
	h := doctor.Heat{
		ID: found.ID, Danger: found.Level == diagnosis.Danger, Load: m.Metric.String(), Share: found.Share, Text: found.Seen,
	}
	all := 0.0
	for at, column := range m.Values {
		if m.TimesMs[at] >= found.FromMs && m.TimesMs[at] < found.ToMs {
			for _, n := range column {
				all += n
			}
		}
	}
	h.PerSecond = all * found.Share / max(float64(found.ToMs-found.FromMs)/1000, 1)
	h.Metric, h.Salts = c.metricOf(found.Start, found.End)
	return h
}

// metricOf returns the metric of a range of keys and its salts; "" if the range holds several metrics.
func (c *Collector) metricOf(start, end string) (metric string, salts int) {
	metric, err := keyschema.MetricOf([]byte(start))
	if err != nil || metric == "" || c.opts.RuleAt == nil {
		return "", 0
	}
	if _, last := keyschema.MetricRows(metric); end == "" || end > string(last) {
		return "", 0
	}
	return metric, c.salts(metric)
}

func (c *Collector) salts(metric string) int {
	return c.opts.RuleAt(metric, keyschema.HourOf(c.opts.Now().UnixMilli())).Salts
}

// addLoads adds the counts of a map by metric and column. A range with keys of several metrics is cold; it counts for the first.
func addLoads(loads map[string][]float64, m *keyviz.Map) {
	for row, start := range m.Starts {
		metric, err := keyschema.MetricOf([]byte(start))
		if err != nil || metric == "" {
			continue
		}
		sums := loads[metric]
		if sums == nil {
			sums = make([]float64, len(m.Values))
			loads[metric] = sums
		}
		for column := range m.Values {
			if column < len(sums) {
				sums[column] += m.Values[column][row]
			}
		}
	}
}

// metrics adds the metrics with the most load, and those with more salts than the default.
func (c *Collector) metrics(f *doctor.Facts, loads map[string][]float64) {
	if c.opts.RuleAt == nil {
		return
	}
	series := map[string]int{}
	c.mu.Lock()
	if n := len(c.sizes); n > 0 {
		series = c.sizes[n-1].metrics
	}
	c.mu.Unlock()
	names := map[string]bool{}
	for metric := range loads {
		names[metric] = true
	}
	for metric := range series {
		if c.salts(metric) > c.thresholds.SaltsFew {
			names[metric] = true
		}
	}
	for _, metric := range slices.Sorted(maps.Keys(names)) {
		peak := 0.0
		for _, n := range loads[metric] {
			peak = max(peak, n/time.Minute.Seconds())
		}
		f.Metrics = append(f.Metrics, doctor.MetricLoad{
			Metric: metric, Salts: c.salts(metric), Series: series[metric], RowsPerSecond: peak,
		})
	}
	slices.SortStableFunc(f.Metrics, func(a, b doctor.MetricLoad) int { return cmp.Compare(b.RowsPerSecond, a.RowsPerSecond) })
	f.Metrics = f.Metrics[:min(len(f.Metrics), metricsMax)]
}
