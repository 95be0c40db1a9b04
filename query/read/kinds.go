package read

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/value"

	"halite/keyschema"
	"halite/keyschema/histchunk"
	"halite/query/column"
	"halite/rollup/histograms"
	rollupstore "halite/rollup/store"
	"halite/storage"
	"halite/storage/index"
)

// kinds is a set of kinds of samples.
type kinds uint8

func kindsOf(kind keyschema.SampleKind) kinds { return 1 << kind }

func (k *kinds) add(kind keyschema.SampleKind) { *k |= kindsOf(kind) }

func (k kinds) has(kind keyschema.SampleKind) bool { return k&kindsOf(kind) != 0 }

// records reports whether the set has more than floats.
func (k kinds) records() bool { return k&^kindsOf(keyschema.Floats) != 0 }

// families lists the families of the data table that hold the kinds.
func (k kinds) families() []string {
	if !k.records() {
		return []string{storage.FamilySamples}
	}
	var out []string
	for kind := range keyschema.SampleKind(keyschema.SampleKinds) {
		if k.has(kind) {
			out = append(out, storage.SampleFamily(kind))
		}
	}
	return out
}

// histogramShare is the approximate size of a row of histograms divided by the size of a row of floats.
const histogramShare = 16

// batchRows returns the number of rows of a batch. floats is the number for a batch of floats.
func (k kinds) batchRows(floats int) int {
	if k.has(keyschema.Histograms) {
		return max(1, floats/histogramShare)
	}
	return floats
}

// findHistograms adds histograms to the kinds if the metric of a series has any in the window.
func (s *Selection) findHistograms() {
	set := s.session.reader.opts.Histograms
	if set == nil || set.Len() == 0 || !s.kinds.has(keyschema.Floats) {
		return
	}
	metric := ""
	for i := range s.series {
		next := metricOf(s.series[i].Labels)
		if slices.ContainsFunc(s.series[i].Parts(), func(part index.Series) bool { return s.hasHistograms(part.Metric()) }) {
			s.kinds.add(keyschema.Histograms)
			s.metric = next
			return
		}
		if next == metric && i > 0 && s.series[i].Tenant == s.series[i-1].Tenant && s.series[i].Alias == nil {
			continue
		}
		metric = next
		if s.hasHistograms(s.series[i].Metric()) {
			s.kinds.add(keyschema.Histograms)
			s.metric = metric
			return
		}
	}
}

// hasHistograms reports whether a metric may have histograms in the window.
func (s *Selection) hasHistograms(metric string) bool {
	return s.session.reader.opts.Histograms.Has(metric, keyschema.HourOf(s.window.MinMs), keyschema.HourOf(s.window.MaxMs))
}

// HistogramsKnown returns a function that reports whether a metric may have histograms in a range, for the principal in ctx. It
// returns nil if no metric has histograms.
func (r *Reader) HistogramsKnown(ctx context.Context) func(metric string, within column.TimeRange) bool {
	set := r.opts.Histograms
	if set == nil || set.Len() == 0 {
		return nil
	}
	return func(metric string, within column.TimeRange) bool {
		return slices.ContainsFunc(r.Stored(ctx, metric), func(stored string) bool {
			return set.Has(stored, keyschema.HourOf(within.MinMs), keyschema.HourOf(within.MaxMs))
		})
	}
}

// Histograms returns a metric of the selection that may have histograms in the window, if there is one. Histograms that columns
// show as floats do not count.
func (s *Selection) Histograms() (metric string, ok bool) {
	return s.metric, s.kinds.has(keyschema.Histograms) && !s.presence
}

// OnlyFloats reports whether columns of the selection have no Records.
func (s *Selection) OnlyFloats() bool { return !s.kinds.records() }

// copyHeadRecords copies the histograms, start timestamps and exemplars that the head has of a series.
func (b *BatchReader) copyHeadRecords(i int) (err error) {
	h, ref, k := b.sel.session.reader.opts.Head, b.series[i].Ref, b.sel.kinds
	minMs, maxMs := hourStart(b.sel.window.MinMs), b.sel.window.MaxMs
	r := &b.headRecords[i]
	if k.has(keyschema.Histograms) {
		if r.Histograms, err = h.AppendHistograms(ref, minMs, maxMs, nil); err != nil {
			return Classify("read histograms of the head", err)
		}
		r.Histograms = slices.DeleteFunc(r.Histograms, func(s histchunk.Sample) bool { return !b.selected(i, s.TsMs) })
	}
	if k.has(keyschema.StartTimes) {
		p := &r.StartTimes
		if p.TsMs, p.Values, err = h.AppendStartTimes(ref, minMs, maxMs, nil, nil); err != nil {
			return Classify("read start timestamps of the head", err)
		}
		*p = keepHours(b.series[i].Hours, *p)
	}
	if k.has(keyschema.Exemplars) {
		if r.Exemplars, err = h.AppendExemplars(ref, minMs, maxMs, nil); err != nil {
			return Classify("read exemplars of the head", err)
		}
	}
	sizeBytes := r.SizeBytes()
	if err := b.sel.session.budget.Reserve(sizeBytes); err != nil {
		return err
	}
	b.recordsBytes += sizeBytes
	b.sel.session.figures.samples.Add(int64(r.Len()))
	return nil
}

// selected reports whether the hour of a time was selected for a series, see keepHours.
func (b *BatchReader) selected(series int, tsMs int64) bool {
	hour := keyschema.HourOf(tsMs)
	for _, span := range b.series[series].Hours {
		if hour <= span.Last {
			return hour >= span.First
		}
	}
	return false
}

// hourStart is the start of the hour of a time. A read begins there, because the hint of a histogram depends on the previous
// histogram.
func hourStart(tsMs int64) int64 { return keyschema.HourStartMs(keyschema.HourOf(tsMs)) }

// histogramChunk is a decoded chunk of a row.
type histogramChunk struct {
	seq     uint32
	samples []histchunk.Sample
}

// addRecords decodes the histograms, start timestamps and exemplars of a row. It returns the number of histograms and exemplars
// in the window.
func (t *timeSlice) addRecords(at int, hour int64, stored storage.Row, d *rowDecoder) (int, error) {
	r := &t.records[at]
	startMs := keyschema.HourStartMs(hour)
	d.startTimes.Reset(startMs)
	d.chunks = d.chunks[:0]
	for _, cell := range stored.Cells {
		q, err := keyschema.ParseQualifier(cell.Qualifier)
		if err == nil && q.Kind == keyschema.KindMark {
			continue
		}
		switch {
		case err != nil || cell.Family == storage.FamilySamples:
		case cell.Family == storage.FamilyHistograms:
			c := histogramChunk{seq: q.Seq}
			c.samples, err = d.histograms.Decode(cell.Value, startMs, nil)
			d.chunks = append(d.chunks, c)
		case cell.Family == storage.FamilyStartTimes:
			err = d.startTimes.Add(cell.Qualifier, cell.Value)
		case cell.Family == storage.FamilyExemplars:
			var listed column.Records
			listed.Exemplars, err = d.exemplars.Decode(cell.Value, startMs, nil)
			r.Add(&listed)
		}
		if err != nil {
			return 0, Classify("read rows", fmt.Errorf("%w: row %q, family %s: %w", storage.ErrCorrupt, stored.Key, cell.Family, err))
		}
	}
	slices.SortStableFunc(d.chunks, func(a, b histogramChunk) int { return cmp.Compare(a.seq, b.seq) })
	for _, c := range d.chunks {
		r.Add(&column.Records{Histograms: c.samples})
	}
	clear(d.chunks)
	tsMs, values := d.startTimes.Columns()
	r.StartTimes = column.Points{TsMs: slices.Clone(tsMs), Values: slices.Clone(values)}
	sizeBytes := r.SizeBytes()
	if err := t.batch.sel.session.budget.Reserve(sizeBytes); err != nil {
		return 0, err
	}
	t.recordsBytes.Add(sizeBytes)
	inWindow := t.window.ClipRecords(*r)
	return inWindow.Len(), nil
}

// joinRecords sets the records of each column of a batch: the records of its rows, merged with the records of the head. On equal
// times the head wins.
func (t *timeSlice) joinRecords(batch *Batch) error {
	records := make([]column.Records, len(batch.Columns))
	cutoffs := t.batch.sel.histogramCutoffs()
	for i := range batch.Columns {
		r, c := &records[i], &batch.Columns[i]
		c.Records = r
		for at := t.rows.Bases[i]; at < t.rows.Bases[i+1]; at++ {
			r.Add(&t.records[at])
		}
		if t.batch.headRecords != nil {
			within := column.TimeRange{MinMs: hourStart(t.window.MinMs), MaxMs: t.window.MaxMs}
			head := within.ClipRecords(t.batch.headRecords[i])
			sizeBytes := head.SizeBytes()
			if err := t.batch.sel.session.budget.Reserve(sizeBytes); err != nil {
				return err
			}
			t.recordsBytes.Add(sizeBytes)
			r.Add(&head)
		}
		column.SetHints(r.Histograms, c.TsMs)
		if err := t.joinHourly(i, r, cutoffs.ms(t.batch.series[i].Metric())); err != nil {
			return err
		}
		*r = t.window.ClipRecords(*r)
		r.HideFloats(&c.Samples)
		if t.batch.sel.presence && len(r.Histograms) > 0 {
			if err := t.addPresence(r.Histograms, &c.Samples); err != nil {
				return err
			}
		}
	}
	batch.recordsBytes = t.recordsBytes.Swap(0)
	return nil
}

// addPresence adds a float at the time of each histogram, and a stale marker at the time of a stale histogram. The floats have
// other times.
func (t *timeSlice) addPresence(list []histchunk.Sample, floats *column.Samples) error {
	total := len(list) + len(floats.TsMs)
	sizeBytes := int64(total) * column.SampleBytes
	if err := t.batch.sel.session.budget.Reserve(sizeBytes); err != nil {
		return err
	}
	t.recordsBytes.Add(sizeBytes)
	added := column.Points{TsMs: make([]int64, len(list)), Values: make([]float64, len(list))}
	for i := range list {
		added.TsMs[i], added.Values[i] = list[i].TsMs, 1
		if histograms.IsStale(&list[i]) {
			added.Values[i] = math.Float64frombits(value.StaleNaN)
		}
	}
	out := column.Buffer{TsMs: make([]int64, 0, total), Values: make([]float64, 0, total)}
	if len(floats.TsMs) > 0 {
		added = overlay(&out, column.Points{TsMs: floats.TsMs, Values: floats.Values}, added)
	}
	out.Append(added.TsMs, added.Values)
	*floats = column.Samples{TsMs: out.TsMs, Values: out.Values}
	return nil
}

// readHourly reads the hourly histograms of times whose histograms are retired.
func (t *timeSlice) readHourly(ctx context.Context) error {
	sel := t.batch.sel
	opts := &sel.session.reader.opts
	if opts.HourlyHistograms == nil || sel.unretained || !sel.kinds.has(keyschema.Histograms) {
		return nil
	}
	retiredMs := max(sel.oldestMs, sel.session.ages.Tier(keyschema.NativeHistograms).At(sel.nowMs).LatestMs())
	if t.window.MinMs >= retiredMs {
		return nil
	}
	req := rollupstore.Request{
		From: keyschema.HourOf(t.window.MinMs), To: keyschema.HourOf(min(t.window.MaxMs, retiredMs-1)), Deletions: t.batch.view,
	}
	var owners []int
	for _, p := range t.prefixes() {
		n := len(owners)
		if p.FromHour > req.To || p.ToHour < req.From || n > 0 && string(req.Prefixes[n-1]) == string(p.Prefix) {
			continue
		}
		req.Prefixes, owners = append(req.Prefixes, p.Prefix), append(owners, p.Series)
	}
	t.hourly = make([][]histchunk.Sample, len(t.batch.series))
	err := opts.HourlyHistograms(ctx, req, func(i int, samples []histchunk.Sample) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		sizeBytes := column.HistogramBytes(samples)
		if err := sel.session.budget.Reserve(sizeBytes); err != nil {
			return err
		}
		t.recordsBytes.Add(sizeBytes)
		sel.session.figures.samples.Add(int64(len(samples)))
		r := column.Records{Histograms: t.hourly[owners[i]]}
		r.Add(&column.Records{Histograms: samples})
		t.hourly[owners[i]] = r.Histograms
		return nil
	})
	if err != nil {
		return Classify("read hourly histograms", err)
	}
	return nil
}

// joinHourly replaces the histograms of a series that are older than their retention by its hourly ones.
func (t *timeSlice) joinHourly(series int, r *column.Records, cutoffMs int64) error {
	kept := column.TimeRange{MinMs: cutoffMs, MaxMs: math.MaxInt64}.ClipRecords(column.Records{Histograms: r.Histograms})
	r.Histograms = kept.Histograms
	b := t.batch
	if t.hourly == nil && b.hourly == nil {
		return nil
	}
	if b.hourly == nil {
		b.hourly = make([][]histchunk.Sample, len(b.series))
	}
	var hourly []histchunk.Sample
	if t.hourly != nil {
		within := column.TimeRange{MinMs: t.window.MinMs, MaxMs: min(t.window.MaxMs, cutoffMs-1)}
		hourly = within.ClipRecords(column.Records{Histograms: t.hourly[series]}).Histograms
	}
	if n := len(hourly); n > 0 {
		b.hourly[series] = hourly[max(0, n-2):] // the last may be a stale marker
	}
	for i := range r.Histograms {
		// The hint refers to a hidden sample.
		if err := histograms.SetHint(b.hourly[series], &r.Histograms[i]); err != nil {
			return Classify("join hourly histograms", err)
		}
		if !histograms.IsStale(&r.Histograms[i]) {
			b.hourly[series] = nil
			break
		}
	}
	r.Histograms = append(hourly[:len(hourly):len(hourly)], r.Histograms...)
	return nil
}
