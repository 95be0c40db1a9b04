package ingest

import (
	"errors"
	"fmt"
	"time"
)

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
