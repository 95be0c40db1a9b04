package ingest

import (
	"errors"
	"fmt"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/ingest/head"
	"halite/ingest/remotewrite"
	"halite/ingest/wal"
)

const (
	// seriesRecordBytes is the size from which a record of new series is written out.
	seriesRecordBytes = 1 << 20
	// aliasSlack bounds the encodings remembered beyond one for each series: a sender that varies its encoding without
	// end is parsed each time, but does not fill the memory.
	aliasSlack = 1024
)

// freshSeries is an encoding that leads to a ref once its series is in the log.
type freshSeries struct {
	key head.Key
	ref uint32
	// log is the number that the series was given in the log, 0 if it had one.
	log uint32
}

// resolve gives the pending series their refs. Series that break a rule lose their samples. It must run before anything
// of the request is stored, because a malformed label field condemns the whole body.
func (r *request) resolve() error {
	if len(r.pending) == 0 {
		return nil
	}
	for n := range r.pending {
		if err := remotewrite.CheckLabels(r.pending[n].fields); err != nil {
			var format *remotewrite.FormatError
			if errors.As(err, &format) {
				format.Offset += r.pending[n].offset
			}
			return &BadRequestError{err}
		}
	}
	r.i.regMu.Lock()
	defer r.i.regMu.Unlock()
	r.fresh, r.encoded = r.fresh[:0], r.encoded[:0]
	for n := range r.pending {
		p := &r.pending[n]
		ref, why, err := r.register(p)
		if err != nil {
			r.abandon()
			return err
		}
		if ref == 0 {
			if why.reason != "" {
				r.reject(p.to-p.from, 0, p.fields, why)
			}
			continue
		}
		for j := p.from; j < p.to; j++ {
			r.samples[j].Ref = ref
		}
		if len(r.encoded) >= seriesRecordBytes {
			if err := r.publish(); err != nil {
				return err
			}
		}
	}
	return r.publish()
}

// register finds or makes the ref of a pending series; ref 0 means that there is nothing to store, and why.
func (r *request) register(p *pending) (ref uint32, why rejection, err error) {
	i := r.i
	key := i.registry.Hash(p.fields)
	if ref, known := i.registry.Find(key); known {
		return ref, why, nil
	}
	r.pairs, err = remotewrite.AppendLabels(r.pairs[:0], p.fields)
	if err != nil {
		return 0, why, &BadRequestError{err}
	}
	pairs, why := i.limits.validate(r.pairs)
	if why.reason != "" || p.from == p.to {
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
	canonical := i.registry.Hash(r.fields[start:])
	r.fields = r.fields[:start]
	ref, known := i.registry.Find(canonical)
	if !known {
		f := freshSeries{key: canonical}
		if f.ref, f.log, why, err = r.create(ls, p.to-p.from); f.ref == 0 || err != nil {
			return 0, why, err
		}
		r.fresh = append(r.fresh, f)
		ref = f.ref
	}
	if key != canonical && i.registry.Len() < 2*int(i.series.Load())+aliasSlack {
		r.fresh = append(r.fresh, freshSeries{key: key, ref: ref})
	}
	return ref, why, nil
}

// create gets a ref from the catalogue for a series that brings samples, and a place, whose number it returns. Ref 0 means
// that a limit refuses the series, and why.
func (r *request) create(ls labels.Labels, samples int) (ref, log uint32, why rejection, err error) {
	i := r.i
	if why := i.seriesLimits.check(ls.Get(model.MetricNameLabel), samples); why.reason != "" {
		return 0, 0, why, nil
	}
	number, _, err := i.index.Add(ls)
	if err != nil {
		return 0, 0, why, fmt.Errorf("add series %s to the catalogue: %w", describeLabels(ls), err)
	}
	ref = uint32(number)
	if log = r.to.enlist(r, ref, ls); log != 0 {
		i.series.Add(1)
	}
	return ref, log, why, nil
}

// enlist implements sink: it prepares the series' record.
func (i *Ingester) enlist(r *request, ref uint32, ls labels.Labels) (log uint32) {
	if i.head.LogRef(ref) != 0 {
		return 0
	}
	log = i.nextLog
	i.nextLog++
	i.head.Register(ref, log)
	r.encoded = wal.AppendSeries(r.encoded, log, ls)
	return log
}

// delist implements sink.
func (i *Ingester) delist(ref uint32) { i.head.Register(ref, 0) }

// publish writes the prepared records to the log and only then lets other writers find the series: no sample can get
// into the log before its series.
func (r *request) publish() error {
	if len(r.encoded) > 0 {
		if err := r.to.appendLog(r, wal.KindSeries, r.encoded); err != nil {
			r.abandon()
			return err
		}
		r.encoded = r.encoded[:0]
	}
	for _, f := range r.fresh {
		r.i.registry.Insert(f.key, f.ref)
		if f.log != 0 {
			r.i.metrics.newSeries.Inc()
		}
	}
	r.fresh = r.fresh[:0]
	return nil
}

// abandon takes back the numbers of series that did not get into the log.
func (r *request) abandon() {
	for _, f := range r.fresh {
		if f.log != 0 {
			r.to.delist(f.ref)
			r.i.series.Add(-1)
		}
	}
	r.encoded, r.fresh = r.encoded[:0], r.fresh[:0]
}
