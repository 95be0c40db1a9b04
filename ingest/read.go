package ingest

import (
	"errors"
	"fmt"

	"github.com/prometheus/common/model"

	"halite/ingest/head"
	"halite/ingest/remotewrite"
	"halite/storage/index"
)

// Read reads the request, finds its series and creates new ones. The caller has called LockSeries. If the body is malformed,
// Read stores nothing of it.
func (r *Request) Read() error {
	r.chooseRegistry()
	var err error
	if r.input.Parse != nil {
		err = r.readBatch()
	} else {
		buf, failure := remotewrite.Snappy(r.input.Body, r.w.limits.DecodedBytesMax)
		if failure != nil {
			return &BadRequestError{failure}
		}
		defer buf.Release() // the label fields of unknown series point into it
		if r.input.Version == V2 {
			err = r.readBodyV2(buf.Bytes())
		} else {
			err = r.readBody(buf.Bytes())
		}
	}
	if err != nil {
		return err
	}
	if err := r.createUnknown(); err != nil {
		return err
	}
	if r.replicas.err != nil {
		return r.w.Overload(ResourceTables, r.replicas.err.Error())
	}
	if r.input.Parse != nil && r.batch.CountsEqual() {
		r.countMerged()
	}
	r.countRate()
	return nil
}

// countRate counts samples and histograms for the limit of samples per second. By metric it counts those that a dry run
// would have refused.
func (r *Request) countRate() {
	n := len(r.samples) + len(r.kinds.histograms)
	r.w.admission.rate.Add(n, r.overRate, r.w.now())
	r.tenant.Add(n, r.overTenantRate, r.w.now())
	if !r.overRate && !r.overTenantRate {
		return
	}
	r.w.metrics.rateDryRun.Add(float64(n))
	byMetric := make(map[string]int)
	for i := range r.samples {
		if ref := r.samples[i].Ref; ref != 0 {
			byMetric[r.w.index.Metric(index.Ref(ref))]++
		}
	}
	for i := range r.kinds.histograms {
		if ref := r.kinds.histograms[i].Ref; ref != 0 {
			byMetric[r.w.index.Metric(index.Ref(ref))]++
		}
	}
	for metric, samples := range byMetric {
		r.w.seriesLimits.countDryRun(metric, samples)
	}
}

// readBodyV2 reads a decoded body of remote write 2.0. It stores nothing yet.
func (r *Request) readBodyV2(body []byte) error {
	v := &r.v2
	w := &v.walker
	err := w.Reset(body, remotewrite.BoundsV2{
		SymbolsMax: r.w.limits.RequestSymbolsMax, SeriesMax: r.w.limits.RequestSamplesMax,
	})
	if errors.Is(err, remotewrite.ErrTooLarge) {
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	} else if err != nil {
		return &BadRequestError{err}
	}
	w.HashSymbols(r.known.Hash)
	v.reset()
	for {
		if !w.Next() {
			if r.lookUp(w) {
				continue
			}
			return nil
		}
		if err := r.readSeriesV2(w); err != nil {
			return err
		}
	}
}

// readSeriesV2 reads one series of remote write 2.0.
func (r *Request) readSeriesV2(w *remotewrite.WalkerV2) error {
	key, sample, metadata, fast := w.FastSeries()
	key = head.InSpace(key, r.space)
	if fast {
		if metadata != (remotewrite.MetadataRefs{}) {
			var metricRef uint32
			r.v2.nameRef, metricRef = w.FastValueRef(r.v2.nameRef, model.MetricNameLabel)
			r.takeMetadata(metadata, metricRef, func(name string) uint32 {
				_, ref := w.FastValueRef(0, name)
				return ref
			})
		}
		if r.postpone(w, key, sample) {
			return nil
		}
	}
	if r.lookUp(w) {
		return nil // Rewind: the walker will return this series again
	}
	if fast {
		if ref, known := r.cursor.Find(key); known {
			r.addKnown(ref, sample)
			return nil
		}
	}
	r.histograms.seriesBytes = 0
	s, err := w.Series()
	if err != nil {
		return seriesError(err)
	}
	if s.Fault != nil {
		r.reject(s.Count(), 0, nil, rejection{ReasonInvalidReference, s.Fault.Error()})
		return nil
	}
	if err := r.w.admission.checkSamples(r.count() + s.Count()); err != nil {
		return err
	}
	ref, known := uint32(0), false
	if !fast {
		key = head.InSpace(w.Key(s.Refs), r.space)
		ref, known = r.cursor.Find(key)
		if s.Metadata != (remotewrite.MetadataRefs{}) {
			r.takeMetadata(s.Metadata, w.ValueRef(s.Refs, model.MetricNameLabel), func(name string) uint32 {
				return w.ValueRef(s.Refs, name)
			})
		}
	}
	if !known {
		from := len(r.fields)
		r.fields = w.AppendFields(r.fields, s.Refs)
		s.Labels = r.fields[from:len(r.fields):len(r.fields)]
	}
	if s.Count() == 0 && s.Metadata == (remotewrite.MetadataRefs{}) {
		r.reject(0, ref, s.Labels, rejection{ReasonEmptySeries, "neither samples nor histograms"})
	}
	if s.ExemplarFaults > 0 {
		r.reject(s.ExemplarFaults, ref, s.Labels, rejection{ReasonInvalidReference, s.ExemplarFault.Error()})
	}
	r.addValues(&s, key, ref, known)
	return nil
}

// requestV2 is the state of a request of remote write 2.0 that 1.0 does not need.
type requestV2 struct {
	walker remotewrite.WalkerV2
	// described holds the last metadata of each metric, by the symbol of the metric. It is empty until the request has
	// metadata.
	described []remotewrite.MetadataRefs
	// nameRef is the symbol of __name__; 0 if none is known.
	nameRef uint32
}

// symbolsKeepMax is the largest number of symbols whose memory the next request reuses.
const symbolsKeepMax = 1 << 16

func (v *requestV2) reset() { v.described, v.nameRef = v.described[:0], 0 }

// release drops the references to the body.
func (v *requestV2) release() {
	_ = v.walker.Reset(nil, remotewrite.BoundsV2{})
	if cap(v.described) > symbolsKeepMax {
		v.described = nil
	}
}

// takeMetadata takes the metadata of a metric unless the store knows it. metricRef is the symbol of the metric's name; 0 if
// there is none. valueRef returns the symbol of the value of another label.
func (r *Request) takeMetadata(m remotewrite.MetadataRefs, metricRef uint32, valueRef func(name string) uint32) {
	if metricRef == 0 {
		return
	}
	v, w := &r.v2, &r.v2.walker
	if len(v.described) == 0 {
		v.described = append(v.described, make([]remotewrite.MetadataRefs, w.Symbols())...)
	}
	if v.described[metricRef] == m {
		return
	}
	metric, kind := m.Family(w.Symbol(metricRef)), m.TypeName()
	help, unit := w.Symbol(m.HelpRef), w.Symbol(m.UnitRef)
	stored := metric
	if r.tenantPrefix != "" {
		stored = append([]byte(r.tenantPrefix), metric...)
	}
	known, several := r.w.metadata.has(stored, kind, help, unit)
	if known && several {
		// Each series may have a different target.
		r.w.metadata.assign(stored, kind, help, unit, w.Symbol(valueRef(model.JobLabel)), w.Symbol(valueRef(model.InstanceLabel)))
		return
	}
	v.described[metricRef] = m
	if known {
		return
	}
	r.metadata = append(r.metadata, remotewrite.Metadata{
		Metric: string(metric), Type: kind, Help: string(help), Unit: string(unit),
	})
}
