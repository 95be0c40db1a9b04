package ingest

import (
	"errors"
	"fmt"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/ingest/head"
	"halite/ingest/remotewrite"
	"halite/ingest/wal/record"
)

const (
	// seriesRecordBytes is the size from which a record of new series is written out.
	seriesRecordBytes = 1 << 20
	// aliasSlack bounds the encodings that the registry keeps beyond three per series: the canonical one, one of remote write
	// 2.0, and one more. The labels of a sender that varies its encoding endlessly are parsed each time, but they do not fill
	// the memory.
	aliasSlack = 1024
)

// createdSeries is an encoding of a series and its ref. The registry gets it once the series is in the log.
type createdSeries struct {
	key head.Key
	ref uint32
	// log is the new number of the series in the log, 0 if it had one.
	log uint32
}

// createUnknown gives the unknown series their refs. It rejects the samples of series that break a rule. It runs before
// anything of the request is stored, because a malformed label field makes the whole body bad.
func (r *Request) createUnknown() error {
	if len(r.unknown) == 0 {
		return nil
	}
	for n := range r.unknown {
		if err := remotewrite.CheckLabels(r.unknown[n].fields); err != nil {
			var format *remotewrite.FormatError
			if errors.As(err, &format) {
				format.Offset += r.unknown[n].offset
			}
			return &BadRequestError{err}
		}
	}
	r.w.regMu.Lock()
	defer r.w.regMu.Unlock()
	r.created, r.encoded = r.created[:0], r.encoded[:0]
	for n := range r.unknown {
		p := &r.unknown[n]
		ref, why, err := r.register(p)
		if err != nil {
			r.dropSeries()
			return err
		}
		if ref == 0 {
			r.rejectUnknown(p, why)
			continue
		}
		r.setRef(p.from, p.to, ref)
		if len(r.encoded) >= seriesRecordBytes {
			if err := r.publish(); err != nil {
				return err
			}
		}
	}
	return r.publish()
}

// rejectUnknown rejects the samples of a series that breaks a rule.
func (r *Request) rejectUnknown(p *unknownSeries, why rejection) {
	if why.reason == "" {
		return
	}
	samples, exemplars := p.to.since(p.from)
	r.reject(samples, 0, p.fields, why) // describes the fault even if there are no samples
	if exemplars > 0 {
		r.rejectExemplars(exemplars, 0, p.fields, why)
	}
}

// register finds or creates the ref of an unknown series. Ref 0 means that there is nothing to store, and why.
func (r *Request) register(p *unknownSeries) (ref uint32, why rejection, err error) {
	w := r.w
	if ref, known := w.registry.Find(p.key); known {
		return ref, why, nil
	}
	r.pairs, err = remotewrite.AppendLabels(r.pairs[:0], p.fields)
	if err != nil {
		return 0, why, &BadRequestError{err}
	}
	pairs, why := w.limits.validate(r.pairs)
	samples, exemplars := p.to.since(p.from)
	if why.reason != "" || samples+exemplars == 0 {
		return 0, why, nil
	}
	r.builder.Reset()
	for _, pair := range pairs {
		r.builder.Add(pair.Name, pair.Value)
	}
	r.builder.Overwrite(&r.labels) // nobody keeps it
	ls := r.labels
	start := len(r.fields)
	r.fields = remotewrite.AppendFields(r.fields, ls)
	canonical := w.registry.Hash(r.fields[start:])
	r.fields = r.fields[:start]
	ref, known := w.registry.Find(canonical)
	if !known {
		f := createdSeries{key: canonical}
		if f.ref, f.log, why, err = r.addSeries(ls, samples); f.ref == 0 || err != nil {
			return 0, why, err
		}
		r.created = append(r.created, f)
		ref = f.ref
	}
	if p.key != canonical && w.registry.Len() < 3*int(w.series.Load())+aliasSlack {
		r.created = append(r.created, createdSeries{key: p.key, ref: ref})
	}
	return ref, why, nil
}

// addSeries adds a series to the index and gives it a number in the log. log is 0 if it had one. Ref 0 means that a limit
// refuses the series, and why. samples is the number of samples that come with it. The caller holds regMu.
func (r *Request) addSeries(ls labels.Labels, samples int) (ref, log uint32, why rejection, err error) {
	w := r.w
	if why := w.seriesLimits.check(ls.Get(model.MetricNameLabel), samples); why.reason != "" {
		return 0, 0, why, nil
	}
	number, _, err := w.index.Add(ls)
	if err != nil {
		return 0, 0, why, fmt.Errorf("add series %s to the index: %w", describeLabels(ls), err)
	}
	ref = uint32(number)
	if w.head.LogRef(ref) != 0 {
		return ref, 0, why, nil
	}
	log = w.nextLog
	w.nextLog++
	w.head.Register(ref, log)
	w.series.Add(1)
	if w.log != nil {
		r.encoded = record.AppendSeries(r.encoded, log, ls)
	}
	return ref, log, why, nil
}

// publish writes the records of new series to the log, and then lets other writers find the series. So no sample gets into the
// log before its series.
func (r *Request) publish() error {
	if len(r.encoded) > 0 {
		if err := r.appendLog(record.KindSeries, r.encoded); err != nil {
			r.dropSeries()
			return err
		}
		r.encoded = r.encoded[:0]
	}
	for _, f := range r.created {
		r.w.registry.Insert(f.key, f.ref)
		if f.log != 0 {
			r.w.metrics.newSeries.Inc()
		}
	}
	r.created = r.created[:0]
	return nil
}

// dropSeries takes back the numbers of series whose records are not in the log.
func (r *Request) dropSeries() {
	for _, f := range r.created {
		if f.log != 0 {
			r.w.head.Register(f.ref, 0)
			r.w.series.Add(-1)
		}
	}
	r.encoded, r.created = r.encoded[:0], r.created[:0]
}

// StoreMetadata stores the request's metadata. It counts faulty entries and leaves them out; they reject no sample.
func (r *Request) StoreMetadata() error {
	if len(r.metadata) == 0 {
		return nil
	}
	s := r.w.metadata
	s.mu.Lock()
	defer s.mu.Unlock()
	r.payload = r.payload[:0]
	for _, m := range r.metadata {
		if reason := s.fault(m); reason != "" {
			r.omit(1, reason)
			continue
		}
		if s.put(m.Metric, Metadata{Type: m.Type, Help: m.Help, Unit: m.Unit}) {
			r.payload = record.AppendMetadata(r.payload, record.Metadata(m))
		}
		if len(r.payload) > metadataRecordBytes {
			if err := r.logMetadata(); err != nil {
				return err
			}
		}
	}
	return r.logMetadata()
}

func (r *Request) logMetadata() error {
	if len(r.payload) == 0 {
		return nil
	}
	if err := r.appendLog(record.KindMetadata, r.payload); err != nil {
		return err
	}
	r.payload = r.payload[:0]
	return nil
}

// appendLog appends a record to the log, if there is one.
func (r *Request) appendLog(kind byte, payload []byte) error {
	if r.w.log == nil {
		return nil
	}
	pos, err := r.w.log.Append(kind, payload)
	if err != nil {
		return err
	}
	r.last, r.logged = pos, true
	return nil
}
