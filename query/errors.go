package query

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/promql"

	"halite/query/budget"
	"halite/query/limits"
	"halite/storage"
)

// ErrorType determines the HTTP status of a response. Its strings are the errorType values of Prometheus's HTTP API.
type ErrorType string

const (
	// ErrorBadData means that the request is wrong and no retry helps (HTTP 400).
	ErrorBadData ErrorType = "bad_data"
	// ErrorTimeout means that the query ran longer than its limit (503).
	ErrorTimeout ErrorType = "timeout"
	// ErrorCanceled means that the client disconnected or that the query was cancelled (499 or 503).
	ErrorCanceled ErrorType = "canceled"
	// ErrorExecution means that a valid query cannot be evaluated, for example because it needs too many samples (422).
	ErrorExecution ErrorType = "execution"
	// ErrorInternal means that the storage failed (500).
	ErrorInternal ErrorType = "internal"
	// ErrorUnavailable means that too many queries are running or that the storage does not respond; retry later (503).
	ErrorUnavailable ErrorType = "unavailable"
)

// Error is the error of every failed call of an Engine.
type Error struct {
	Type ErrorType
	// Param names the wrong parameter of the request, if there is one: query, start, end, step, timeout, lookback_delta,
	// limit.
	Param string
	Err   error
}

// Error returns the message in Prometheus's words, after the wrong parameter.
func (e *Error) Error() string {
	if e.Param != "" {
		return fmt.Sprintf("invalid parameter %q: %v", e.Param, e.Err)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

var (
	// ErrCancelled is the cause of a query that Engine.Cancel ended.
	ErrCancelled = errors.New("query was cancelled by request")
	// ErrBusy is the cause of a query that got no slot in time.
	ErrBusy = errors.New("too many queries are running, try again later")
)

func badParam(param, format string, args ...any) *Error {
	return &Error{Type: ErrorBadData, Param: param, Err: fmt.Errorf(format, args...)}
}

// badQuery returns the error of an expression that the parser or the engine refuses.
func badQuery(err error) *Error { return &Error{Type: ErrorBadData, Param: "query", Err: err} }

// classify returns an evaluation error with its type. An exceeded limit takes precedence, then the cause of ctx, because the end
// of ctx causes other failures. Every timeout begins with the words of Prometheus's engine.
func classify(ctx context.Context, err error) *Error {
	var (
		known    *Error
		canceled promql.ErrQueryCanceled
		timeout  promql.ErrQueryTimeout
		samples  promql.ErrTooManySamples
		store    promql.ErrStorage
	)
	cause := context.Cause(ctx)
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, limits.ErrConcurrency), errors.Is(err, limits.ErrSlowLane):
		return &Error{Type: ErrorUnavailable, Err: err}
	case budget.IsPoolExhausted(err):
		return &Error{Type: ErrorUnavailable, Err: err}
	case errors.Is(cause, ErrCancelled):
		return &Error{Type: ErrorCanceled, Err: ErrCancelled}
	case errors.As(err, &samples):
		return &Error{Type: ErrorExecution, Err: err}
	case errors.As(err, &timeout):
		return &Error{Type: ErrorTimeout, Err: err}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(cause, context.DeadlineExceeded):
		return &Error{Type: ErrorTimeout, Err: fmt.Errorf("%w: %w", promql.ErrQueryTimeout("expression evaluation"), err)}
	case errors.As(err, &canceled), errors.Is(err, context.Canceled), cause != nil:
		return &Error{Type: ErrorCanceled, Err: err}
	case errors.Is(err, storage.ErrUnavailable):
		return &Error{Type: ErrorUnavailable, Err: err}
	case errors.As(err, &store):
		return &Error{Type: ErrorInternal, Err: err}
	default:
		return &Error{Type: ErrorExecution, Err: err}
	}
}

// samplesText describes how many samples a query may hold.
func (o Options) samplesText() string {
	text := fmt.Sprintf("%d (query.max-samples)", o.SamplesMax)
	if o.EngineSamplesMax < o.SamplesMax {
		text += fmt.Sprintf(", or %d in Prometheus's engine (query.max-engine-samples)", o.EngineSamplesMax)
	}
	return text
}

// failedFor reports whether a query timed out. exceeded is the memory limit that the query exceeded, 0 if none.
func failedFor(err error) (timedOut bool, exceeded int64) {
	if err == nil {
		return false, 0
	}
	var (
		typed   *Error
		reading *budget.LimitError
	)
	if !errors.As(err, &typed) {
		return false, 0
	}
	if errors.As(typed.Err, &reading) && reading.Resource == budget.Bytes {
		exceeded = reading.Max
	}
	return typed.Type == ErrorTimeout, exceeded
}

// limited adds to an error the exceeded limit and advice for the user.
func (o Options) limited(e *Error, timeout time.Duration) *Error {
	var (
		samples promql.ErrTooManySamples
		reading *budget.LimitError
	)
	switch {
	case e.Type == ErrorTimeout:
		e.Err = fmt.Errorf("%w; a query may take %s (query.timeout, limits.query_time, or the request's own timeout): select "+
			"fewer series, a shorter range or a longer step", e.Err, timeout)
	case errors.As(e.Err, &reading):
	case errors.As(e.Err, &samples):
		e.Err = fmt.Errorf("%w; it may hold %s: select fewer series, a shorter range or a longer step", e.Err, o.samplesText())
	}
	return e
}
