package ingest

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// Sample is one value of one series.
type Sample struct {
	// Labels include __name__.
	Labels labels.Labels
	// TsMs is in milliseconds since 1970.
	TsMs  int64
	Value float64
}

// Result says what became of a request's samples.
type Result struct {
	// Accepted samples are durable; Rejected ones were not stored.
	Accepted, Rejected int
	// Reasons counts the rejected samples by reason; nil if there are none.
	Reasons map[string]int
	// First describes the first rejection: series and reason.
	First string
}

// Metadata describes a metric.
type Metadata struct{ Type, Help, Unit string }

// Errors of a write. Anything else that a write returns is unexpected and worth a retry.
var (
	// ErrTooLarge: the body, compressed or decoded, or its number of samples is over the limit; split it.
	ErrTooLarge = errors.New("request too large")
	// ErrClosed: the ingester is closing or closed.
	ErrClosed = errors.New("ingester is closed")
)

// BadRequestError says that a body could not be understood. Nothing of it was stored; sending it again will not help.
type BadRequestError struct {
	Err error
}

func (e *BadRequestError) Error() string { return "bad write request: " + e.Err.Error() }

// Unwrap returns the reason.
func (e *BadRequestError) Unwrap() error { return e.Err }

// OverloadError says that the write was refused for lack of a resource and should be sent again after RetryAfter.
// Nothing of it was stored.
type OverloadError struct {
	// Reason names the resource.
	Reason string
	// RetryAfter is jittered so that refused senders do not come back together.
	RetryAfter time.Duration
}

func (e *OverloadError) Error() string {
	return fmt.Sprintf("overloaded: %s; retry after %s", e.Reason, e.RetryAfter)
}
