package ingest

import (
	"cmp"
	"context"
	"slices"

	"halite/ingest/head"
	"halite/ingest/wal/record"
	"halite/keyschema"
	"halite/storage/index"
)

// Both keep a log record far below the largest payload. They bound its samples and the bytes of its histograms or exemplars.
const (
	recordSamplesMax = 1 << 16
	recordBytesMax   = 1 << 20
)

// Write stores a request and returns when it is durable. It omits series that break a rule and lists them in the Result. The
// error is a *BadRequestError, ErrTooLarge, an *OverloadError, ErrClosed or unexpected. After an error Write has
// acknowledged nothing.
func (i *Ingester) Write(ctx context.Context, in Input) (Result, error) {
	r, err := i.Begin(ctx, in)
	if err != nil {
		if resource, _ := i.admission.lacks(); resource != "" {
			i.flusher.Wake()
		}
		return Result{}, err
	}
	defer r.Release()
	err = i.store(r)
	r.Leave()
	if err == nil && r.logged {
		err = i.log.Wait(ctx, r.last)
	}
	return r.Finish(err)
}

// store runs the phases of a request until the log has buffered it. No series is removed from memory meanwhile.
func (i *Ingester) store(r *Request) error {
	i.LockSeries()
	defer i.UnlockSeries()
	if err := r.Read(); err != nil {
		return err
	}
	stored, err := i.storeNumbers(r, keyschema.Floats, r.samples)
	r.Accept(stored)
	if err != nil {
		return err
	}
	if err := i.storeKinds(r); err != nil {
		return err
	}
	return r.StoreMetadata()
}

// storeNumbers appends floats or start times of known series to log and head, stripe by stripe. It returns their number.
func (i *Ingester) storeNumbers(r *Request, kind keyschema.SampleKind, numbers []head.Sample) (stored int, err error) {
	h := i.head
	r.stripes.Sort(h, numbers)
	defer func() { r.NoteChanges(r.stripes.Sorted()) }()
	for stripe := range h.Stripes() {
		samples := r.stripes.Stripe(stripe)
		for len(samples) > 0 {
			some := samples[:min(len(samples), recordSamplesMax)]
			samples = samples[len(some):]
			r.encoder.Reset(r.payload[:0])
			for n := range some {
				s := &some[n]
				r.encoder.Add(h.LogRef(s.Ref), s.TsMs, s.Value)
			}
			r.payload = r.encoder.Bytes()
			if err := i.storePayload(r, stripe, kind, some); err != nil {
				return stored, err
			}
			stored += len(some)
		}
	}
	if kind == keyschema.Floats {
		r.CountHeat(r.stripes.Sorted())
	}
	if h.Sealed() > 0 || h.Bytes() > i.admission.memory.rowBytesMax() {
		i.flusher.Wake()
	}
	return stored, nil
}

// storePayload appends the payload to the log and then its samples to the head. The samples belong to one stripe.
// storePayload locks the stripe, so log and head have the samples of a series in the same order. The index gets the new rows
// before the samples are acknowledged.
func (i *Ingester) storePayload(r *Request, stripe int, kind keyschema.SampleKind, samples []head.Sample) (err error) {
	i.head.LockStripe(stripe)
	defer i.head.UnlockStripe(stripe)
	if err := r.appendLog(logKind(kind), r.payload); err != nil {
		return err
	}
	r.opened, err = i.appendNumbers(stripe, kind, samples, r.last.Segment, r.opened[:0])
	return err
}

// appendNumbers appends floats or start times of one stripe to the head. segment is the log segment that holds them.
// appendNumbers adds the rows that it begins to the index and returns them in opened. The caller has locked the stripe.
func (i *Ingester) appendNumbers(
	stripe int, kind keyschema.SampleKind, numbers []head.Sample, segment uint64, opened []head.OpenedRow,
) (rows []head.OpenedRow, err error) {
	rows, err = i.head.Append(stripe, kind, numbers, segment, opened)
	for _, row := range rows {
		i.index.MarkActive(index.Ref(row.Ref), row.Hour)
	}
	return rows, err
}

// logKind is the kind of log record that holds samples of a kind.
func logKind(kind keyschema.SampleKind) byte {
	switch kind {
	case keyschema.Histograms:
		return record.KindHistograms
	case keyschema.Exemplars:
		return record.KindExemplars
	case keyschema.StartTimes:
		return record.KindStartTimes
	default:
		return record.KindSamples
	}
}

// storeKinds appends the samples that are not floats to log and head.
func (i *Ingester) storeKinds(r *Request) error {
	k := &r.kinds
	if len(k.starts) > 0 {
		if _, err := i.storeNumbers(r, keyschema.StartTimes, k.starts); err != nil {
			return err
		}
	}
	if len(k.histograms)+len(k.exemplars) == 0 {
		return nil
	}
	n, err := i.storeRecords(r, keyschema.Histograms, k.histograms)
	r.result.Histograms += n
	if err != nil {
		return err
	}
	n, err = i.storeRecords(r, keyschema.Exemplars, k.exemplars)
	r.result.Exemplars += n
	if i.head.Sealed() > 0 || i.head.Bytes() > i.admission.memory.rowBytesMax() {
		i.flusher.Wake()
	}
	return err
}

// storeRecords appends histograms or exemplars of known series to log and head, stripe by stripe. It returns their number.
func (i *Ingester) storeRecords(r *Request, kind keyschema.SampleKind, records []head.Record) (stored int, err error) {
	records = slices.DeleteFunc(records, func(r head.Record) bool { return r.Ref == 0 })
	slices.SortStableFunc(records, func(a, b head.Record) int {
		return cmp.Compare(i.head.Stripe(a.Ref), i.head.Stripe(b.Ref))
	})
	defer func() { r.noteRecords(kind, records[:stored]) }()
	for rest := records; len(rest) > 0; {
		n := r.encodeRecords(i.head, rest)
		if err := i.storeEncoded(r, i.head.Stripe(rest[0].Ref), kind, rest[:n]); err != nil {
			return stored, err
		}
		stored, rest = stored+n, rest[n:]
	}
	return stored, nil
}

// storeEncoded is storePayload for histograms or exemplars.
func (i *Ingester) storeEncoded(r *Request, stripe int, kind keyschema.SampleKind, records []head.Record) error {
	i.head.LockStripe(stripe)
	defer i.head.UnlockStripe(stripe)
	if err := r.appendLog(logKind(kind), r.payload); err != nil {
		return err
	}
	return i.appendRecords(stripe, kind, records, r.last.Segment)
}

// encodeRecords encodes the first records, up to the end of their stripe, and returns their number.
func (r *Request) encodeRecords(h *head.Head, records []head.Record) (n int) {
	e := &r.kinds.encoder
	e.Reset(r.payload[:0])
	stripe := h.Stripe(records[0].Ref)
	for n < len(records) && n < recordSamplesMax && h.Stripe(records[n].Ref) == stripe {
		at := &records[n]
		if n > 0 && e.Len()+record.EncodedSizeMax(len(at.Data)) > recordBytesMax {
			break
		}
		e.Add(h.LogRef(at.Ref), at.TsMs, at.Data)
		n++
	}
	r.payload = e.Bytes()
	return n
}

// noteRecords is NoteChanges for histograms or exemplars. Histograms are samples, so it counts their heat.
func (r *Request) noteRecords(kind keyschema.SampleKind, records []head.Record) {
	times := r.kinds.times[:0]
	for n := range records {
		times = append(times, head.Sample{Ref: records[n].Ref, TsMs: records[n].TsMs})
	}
	r.kinds.times = times
	r.NoteChanges(times)
	if kind == keyschema.Histograms {
		r.CountHeat(times)
	}
}

// appendRecords is appendNumbers for histograms or exemplars. It also adds the rows to the set of metrics with histograms.
func (i *Ingester) appendRecords(stripe int, kind keyschema.SampleKind, records []head.Record, segment uint64) error {
	opened, err := i.head.StoreRecords(stripe, kind, records, segment, nil)
	for _, row := range opened {
		ref := index.Ref(row.Ref)
		i.index.MarkActive(ref, row.Hour)
		if kind == keyschema.Histograms {
			i.histograms.Mark(i.index.Metric(ref), row.Hour)
		}
	}
	return err
}
