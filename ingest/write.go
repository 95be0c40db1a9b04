package ingest

import (
	"context"
	"errors"
	"fmt"

	"halite/ingest/decode"
	"halite/ingest/wal"
)

// WriteRemote stores a remote write 1.0 body (snappy-compressed protobuf) and returns when it is durable. Series that
// break a rule are left out and listed in the Result; the rest is stored. The error is a *BadRequestError, ErrTooLarge,
// an *OverloadError, ErrClosed or something unexpected; nothing was acknowledged then.
func (i *Ingester) WriteRemote(ctx context.Context, body []byte) (Result, error) {
	if err := i.begin(); err != nil {
		return Result{}, err
	}
	defer i.callers.Done()
	i.metrics.requests.Inc()
	size, err := i.measure(body)
	if err != nil {
		i.metrics.badRequests.Inc()
		return Result{}, err
	}
	release, err := i.admit(ctx, size)
	if err != nil {
		return Result{}, err
	}
	r := i.newRequest()
	defer r.release()
	err = func() error {
		defer release()
		buf, err := decode.Snappy(body, i.limits.DecodedBytesMax)
		if err != nil {
			return &BadRequestError{err}
		}
		defer buf.Release()
		return r.run(func() error { return r.read(buf.Bytes()) })
	}()
	return r.finish(ctx, err)
}

// Write stores samples by the same path and rules as WriteRemote.
func (i *Ingester) Write(ctx context.Context, samples []Sample) (Result, error) {
	if err := i.begin(); err != nil {
		return Result{}, err
	}
	defer i.callers.Done()
	i.metrics.requests.Inc()
	if len(samples) > i.limits.RequestSamplesMax {
		i.metrics.badRequests.Inc()
		return Result{}, tooManySamples(i.limits.RequestSamplesMax)
	}
	release, err := i.admit(ctx, 0)
	if err != nil {
		return Result{}, err
	}
	r := i.newRequest()
	defer r.release()
	err = func() error {
		defer release()
		return r.run(func() error { r.readSamples(samples); return nil })
	}()
	return r.finish(ctx, err)
}

// readSamples brings samples into the form of a body's.
func (r *request) readSamples(samples []Sample) {
	for n := range samples {
		s := &samples[n]
		start := len(r.fields)
		r.fields = decode.AppendFields(r.fields, s.Labels)
		fields := r.fields[start:len(r.fields):len(r.fields)]
		sample := [1]decode.Sample{{TsMs: s.TsMs, Value: s.Value}}
		r.takeSeries(decode.Series{Labels: fields, Samples: sample[:]}, false)
	}
}

// measure checks a body's sizes and returns the decoded one.
func (i *Ingester) measure(body []byte) (sizeBytes int, err error) {
	if len(body) > i.limits.BodyBytesMax {
		return 0, fmt.Errorf("%w: %d bytes compressed, %d allowed", ErrTooLarge, len(body), i.limits.BodyBytesMax)
	}
	size, err := decode.DecodedLen(body)
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
	if err := r.store(); err != nil {
		return err
	}
	return r.describeMetrics()
}

// finish waits until what was logged is durable and gives the answer.
func (r *request) finish(ctx context.Context, err error) (Result, error) {
	i := r.i
	if err == nil && r.logged {
		err = i.log.Wait(ctx, r.last)
	}
	if err == nil {
		i.metrics.accepted.Add(float64(r.result.Accepted))
		return r.result, nil
	}
	var bad *BadRequestError
	switch {
	case errors.As(err, &bad), errors.Is(err, ErrTooLarge):
		i.metrics.badRequests.Inc()
	case errors.Is(err, wal.ErrOverload):
		err = i.overload(resourceLog, "the disk of the log does not keep up")
	case errors.Is(err, wal.ErrClosed):
		err = ErrClosed
	}
	return Result{}, err
}
