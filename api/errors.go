package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/prometheus/promql"

	"halite/query"
	readers "halite/query/promql"
	"halite/storage"
)

// errorType is the errorType field of an error answer.
type errorType string

const (
	errBadData     errorType = "bad_data"
	errExec        errorType = "execution"
	errTimeout     errorType = "timeout"
	errCanceled    errorType = "canceled"
	errInternal    errorType = "internal"
	errUnavailable errorType = "unavailable"
	errNotFound    errorType = "not_found"
)

// statusClientClosed is what nginx, and after it Prometheus, reports when the client left before the answer was ready.
const statusClientClosed = 499

// apiError is an error with its place in Prometheus' scheme of error types.
type apiError struct {
	typ errorType
	err error
	// status overrides the status code that belongs to typ; 0 does not.
	status int
	// retryAfter is sent with 503; 0 lets the server choose.
	retryAfter time.Duration
}

// code is the HTTP status code of the error. Prometheus answers 500 for "unavailable"; here it is 503, so that clients
// and load balancers try again.
func (e *apiError) code() int {
	if e.status != 0 {
		return e.status
	}
	switch e.typ {
	case errBadData:
		return http.StatusBadRequest
	case errExec:
		return http.StatusUnprocessableEntity
	case errCanceled:
		return statusClientClosed
	case errTimeout, errUnavailable:
		return http.StatusServiceUnavailable
	case errNotFound:
		return http.StatusNotFound
	default:
		return http.StatusInternalServerError
	}
}

func badData(err error) *apiError { return &apiError{typ: errBadData, err: err} }

func badParam(name string, err error) *apiError {
	return badData(fmt.Errorf("invalid parameter %q: %w", name, err))
}

// badForm reports a query string or form body that could not be parsed.
func badForm(err error) *apiError {
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return &apiError{
			typ: errBadData, status: http.StatusRequestEntityTooLarge,
			err: fmt.Errorf("request body exceeds the limit of %d bytes", tooLarge.Limit),
		}
	}
	return badData(fmt.Errorf("error parsing form values: %w", err))
}

// evalError places an error of the engine, the catalogue or the store.
func evalError(err error) *apiError {
	var (
		typed    *query.Error
		canceled promql.ErrQueryCanceled
		timeout  promql.ErrQueryTimeout
		store    promql.ErrStorage
	)
	switch {
	case errors.Is(err, query.ErrCancelled):
		// The client is still there: an operator ended its query.
		return &apiError{typ: errCanceled, status: http.StatusServiceUnavailable, err: err}
	case errors.As(err, &typed):
		return &apiError{typ: errorType(typed.Type), err: err}
	case readers.Crowded(err):
		return &apiError{typ: errUnavailable, err: err}
	case errors.As(err, &canceled), errors.Is(err, context.Canceled):
		return &apiError{typ: errCanceled, err: err}
	case errors.As(err, &timeout), errors.Is(err, context.DeadlineExceeded):
		return &apiError{typ: errTimeout, err: err}
	case errors.Is(err, storage.ErrUnavailable):
		return &apiError{typ: errUnavailable, err: err}
	case errors.As(err, &store):
		return &apiError{typ: errInternal, err: err}
	}
	return &apiError{typ: errExec, err: err}
}
