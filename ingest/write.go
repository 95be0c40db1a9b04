package ingest

import (
	"context"

	"halite/ingest/head"
	"halite/ingest/wal/record"
	"halite/storage/index"
)

// recordSamplesMax bounds the samples of one log record, far below what a payload may hold.
const recordSamplesMax = 1 << 16

// WriteRemote stores a remote write 1.0 body (snappy-compressed protobuf) and returns when it is durable. It leaves out series
// that break a rule and lists them in the Result. The error is a *BadRequestError, ErrTooLarge, an *OverloadError, ErrClosed or
// something unexpected. After an error nothing was acknowledged.
func (i *Ingester) WriteRemote(ctx context.Context, body []byte) (Result, error) {
	if body == nil {
		body = []byte{}
	}
	return i.write(ctx, Input{Body: body})
}

// WriteRemoteV2 is WriteRemote for a body of remote write 2.0.
func (i *Ingester) WriteRemoteV2(ctx context.Context, body []byte) (Result, error) {
	if body == nil {
		body = []byte{}
	}
	return i.write(ctx, Input{Body: body, Version: V2})
}

// Write stores samples by the same path and rules as WriteRemote.
func (i *Ingester) Write(ctx context.Context, samples []Sample) (Result, error) {
	return i.write(ctx, Input{Samples: samples})
}

func (i *Ingester) write(ctx context.Context, in Input) (Result, error) {
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

// store takes a request through its phases up to the log's buffer. No series is forgotten meanwhile.
func (i *Ingester) store(r *Request) error {
	i.LockSeries()
	defer i.UnlockSeries()
	if err := r.Read(); err != nil {
		return err
	}
	if err := i.storeSamples(r); err != nil {
		return err
	}
	return r.StoreMetadata()
}

// storeSamples appends the samples of known series to log and head, stripe by stripe.
func (i *Ingester) storeSamples(r *Request) error {
	h := i.head
	r.stripes.Sort(h, r.samples)
	defer func() { r.NoteChanges(r.stripes.Sorted()) }()
	for stripe := range h.Stripes() {
		samples := r.stripes.Of(stripe)
		for len(samples) > 0 {
			some := samples[:min(len(samples), recordSamplesMax)]
			samples = samples[len(some):]
			r.encoder.Reset(r.payload[:0])
			for n := range some {
				s := &some[n]
				r.encoder.Add(h.LogRef(s.Ref), s.TsMs, s.Value)
			}
			r.payload = r.encoder.Bytes()
			if err := i.storeRecord(r, stripe, some); err != nil {
				return err
			}
			r.Accept(len(some))
		}
	}
	if h.Sealed() > 0 || h.Bytes() > i.admission.memory.rowBytesMax() {
		i.flusher.Wake()
	}
	return nil
}

// storeRecord appends the samples of one stripe to the log and then to the head. The stripe is locked, so that log and head have
// the samples of a series in the same order. The index learns of new rows before the samples are acknowledged.
func (i *Ingester) storeRecord(r *Request, stripe int, samples []head.Sample) (err error) {
	i.head.LockStripe(stripe)
	defer i.head.UnlockStripe(stripe)
	if err := r.appendLog(record.KindSamples, r.payload); err != nil {
		return err
	}
	r.opened, err = i.head.Append(stripe, samples, r.last.Segment, r.opened[:0])
	for _, row := range r.opened {
		i.index.MarkActive(index.Ref(row.Ref), row.Hour)
	}
	return err
}
