package index

import "context"

// Meter is told of memory that a look-up is about to take, in bytes, and may refuse it: that ends the look-up with the
// Meter's error. It is never told that memory is given back; after the look-up only what was returned is left.
type Meter func(bytes int64) error

type meterKey struct{}

// WithMeter has Select, SelectPart and SelectPartners tell m what they take.
func WithMeter(ctx context.Context, m Meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

// meterBytes is how much is taken before the Meter is told.
const meterBytes = 64 << 10

// charge counts memory that a query is about to take.
func (q *query) charge(bytes int) error {
	q.taken += int64(bytes)
	if q.meter == nil || q.taken < meterBytes {
		return nil
	}
	taken := q.taken
	q.taken = 0
	return q.meter(taken)
}
