package query

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/promql"

	"halite/query/budget"
	"halite/storage"
)

// ErrorType tells a front end how to answer. Its strings are the errorType values of Prometheus's HTTP API.
type ErrorType string

const (
	// ErrorBadData: the request is wrong and no retry helps (HTTP 400).
	ErrorBadData ErrorType = "bad_data"
	// ErrorTimeout: the query ran longer than it may (503).
	ErrorTimeout ErrorType = "timeout"
	// ErrorCanceled: the client went away or the query was cancelled by hand (499 or 503).
	ErrorCanceled ErrorType = "canceled"
	// ErrorExecution: the query is well formed but cannot be evaluated, for example it needs too many samples (422).
	ErrorExecution ErrorType = "execution"
	// ErrorInternal: the storage below failed (500).
	ErrorInternal ErrorType = "internal"
	// ErrorUnavailable: too many queries are running, or the storage does not answer; retry later (503).
	ErrorUnavailable ErrorType = "unavailable"
)

// Error is what every call of an Engine returns on failure.
type Error struct {
	Type ErrorType
	// Param names the request parameter at fault, if one is: query, start, end, step, timeout, lookback_delta, limit.
	Param string
	Err   error
}

// Error gives the message as Prometheus words it, with the parameter at fault in front.
func (e *Error) Error() string {
	if e.Param != "" {
		return fmt.Sprintf("invalid parameter %q: %v", e.Param, e.Err)
	}
	return e.Err.Error()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

var (
	// ErrCancelled is the cause when Engine.Cancel ended a query.
	ErrCancelled = errors.New("query was cancelled by request")
	// ErrBusy is the cause when no slot became free in time.
	ErrBusy = errors.New("too many queries are running, try again later")
)

func badParam(param, format string, args ...any) *Error {
	return &Error{Type: ErrorBadData, Param: param, Err: fmt.Errorf(format, args...)}
}

// classify gives an evaluation error its type. A limit that was reached comes first, then the cause of ctx: once ctx has
// ended, other failures follow from it. Every timeout begins with the words of Prometheus's engine.
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

// samplesText says how many samples a query may hold.
func (o Options) samplesText() string {
	text := fmt.Sprintf("%d (query.max-samples)", o.SamplesMax)
	if o.EngineSamplesMax < o.SamplesMax {
		text += fmt.Sprintf(", where Prometheus's engine evaluates it %d (query.max-engine-samples)", o.EngineSamplesMax)
	}
	return text
}

// limited names the limit in an error and says what the user can do.
func (o Options) limited(e *Error, timeout time.Duration) *Error {
	var (
		samples promql.ErrTooManySamples
		reading *budget.LimitError
	)
	switch {
	case e.Type == ErrorTimeout:
		e.Err = fmt.Errorf("%w; a query may take %s (query.timeout, or the request's own timeout): select fewer series, a "+
			"shorter range or a longer step", e.Err, timeout)
	case errors.As(e.Err, &reading):
	case errors.As(e.Err, &samples):
		e.Err = fmt.Errorf("%w; it may hold %s: select fewer series, a shorter range or a longer step", e.Err, o.samplesText())
	}
	return e
}
