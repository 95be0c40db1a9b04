package ingest

import (
	"context"
	"errors"
	"fmt"

	"halite/ingest/remotewrite"
	"halite/ingest/wal"
)

// WriteRemote stores a remote write 1.0 body (snappy-compressed protobuf) and returns when it is durable. Series that
// break a rule are left out and listed in the Result; the rest is stored. The error is a *BadRequestError, ErrTooLarge,
// an *OverloadError, ErrClosed or something unexpected; nothing was acknowledged then.
func (i *Ingester) WriteRemote(ctx context.Context, body []byte) (Result, error) {
	r, err := i.writeBody(ctx, i, body)
	return r, i.refuse(err)
}

// Write stores samples by the same path and rules as WriteRemote.
func (i *Ingester) Write(ctx context.Context, samples []Sample) (Result, error) {
	r, err := i.writeSamples(ctx, i, samples)
	return r, i.refuse(err)
}

// readSamples brings samples into the form of a body's.
func (r *request) readSamples(samples []Sample) {
	for n := range samples {
		s := &samples[n]
		start := len(r.fields)
		r.fields = remotewrite.AppendFields(r.fields, s.Labels)
		fields := r.fields[start:len(r.fields):len(r.fields)]
		sample := [1]remotewrite.Sample{{TsMs: s.TsMs, Value: s.Value}}
		r.takeSeries(remotewrite.Series{Labels: fields, Samples: sample[:]}, false)
	}
}

// measure checks a body's sizes and returns the decoded one.
func (i *intake) measure(body []byte) (sizeBytes int, err error) {
	if len(body) > i.limits.BodyBytesMax {
		return 0, fmt.Errorf("%w: %d bytes compressed, %d allowed", ErrTooLarge, len(body), i.limits.BodyBytesMax)
	}
	size, err := remotewrite.DecodedLen(body)
	if err != nil {
		return 0, &BadRequestError{err}
	}
	if size > i.limits.DecodedBytesMax {
		return 0, fmt.Errorf("%w: %d bytes decompressed, %d allowed", ErrTooLarge, size, i.limits.DecodedBytesMax)
	}
	return size, nil
}

func tooManySamples(most int) error {
	return fmt.Errorf("%w: more than %d series or samples", ErrTooLarge, most)
}

// run takes a request through its phases up to the log's buffer. No series is forgotten meanwhile.
func (r *request) run(read func() error) error {
	r.i.epoch.RLock()
	defer r.i.epoch.RUnlock()
	if err := read(); err != nil {
		return err
	}
	if err := r.resolve(); err != nil {
		return err
	}
	if err := r.to.store(r); err != nil {
		return err
	}
	return r.describeMetrics()
}

// finish waits until what was logged is durable and gives the answer.
func (r *request) finish(ctx context.Context, err error) (Result, error) {
	i := r.i
	if err == nil {
		err = r.to.await(ctx, r)
	}
	if err == nil {
		i.metrics.accepted.Add(float64(r.result.Accepted))
		return r.result, nil
	}
	var bad *BadRequestError
	switch {
	case errors.As(err, &bad), errors.Is(err, ErrTooLarge):
		i.metrics.badRequests.Inc()
	case errors.Is(err, wal.ErrClosed):
		err = ErrClosed
	}
	return Result{}, err
}

// store implements sink: it appends the samples with a ref to log and head, one hold of the lock for each stripe they
// fall into.
func (i *Ingester) store(r *request) error {
	h := i.head
	r.stripe(h)
	defer func() { r.noteChanges(r.striped) }()
	for stripe := range h.Stripes() {
		samples := r.striped[r.starts[stripe]:r.starts[stripe+1]]
		for len(samples) > 0 {
			some := samples[:min(len(samples), recordSamplesMax)]
			samples = samples[len(some):]
			r.encoder.Reset(r.payload[:0])
			for n := range some {
				s := &some[n]
				r.encoder.Add(h.LogRef(s.Ref), s.TsMs, s.Value)
			}
			r.payload = r.encoder.Bytes()
			if err := h.Append(stripe, some, r); err != nil {
				return err
			}
			r.result.Accepted += len(some)
		}
	}
	if h.Sealed() > 0 || h.Bytes() > i.rowBytesMax() {
		i.flusher.Wake()
	}
	return nil
}

// appendLog implements sink.
func (i *Ingester) appendLog(r *request, kind byte, payload []byte) error {
	pos, err := i.log.Append(kind, payload)
	if err != nil {
		return err
	}
	r.last, r.logged = pos, true
	return nil
}

// await implements sink: it waits for the sync of the log.
func (i *Ingester) await(ctx context.Context, r *request) error {
	if !r.logged {
		return nil
	}
	return i.log.Wait(ctx, r.last)
}
