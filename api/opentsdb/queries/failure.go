package queries

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"halite/api/promjson"
	"halite/ingest"
	"halite/query"
	"halite/query/opentsdb/request"
	"halite/storage"
	"halite/storage/tombstone"
)

// failure is an error with its status.
type failure struct {
	status int
	err    error
}

func (f *failure) Error() string { return f.err.Error() }

func (f *failure) Unwrap() error { return f.err }

// statusClientClosed is the status of a request whose client has closed the connection.
const statusClientClosed = 499

// statusOf returns the status for an error. OpenTSDB answers 413 to queries that are too large or take too long.
func statusOf(err error) int {
	var (
		placed *failure
		wrong  *request.Error
		failed *query.Error
		limit  *tombstone.LimitError
	)
	switch {
	case errors.As(err, &placed):
		return placed.status
	case errors.As(err, &wrong):
		return http.StatusBadRequest
	case errors.Is(err, query.ErrCancelled):
		return http.StatusServiceUnavailable
	case errors.As(err, &failed):
		return map[query.ErrorType]int{
			query.ErrorBadData: http.StatusBadRequest, query.ErrorTimeout: http.StatusRequestEntityTooLarge,
			query.ErrorExecution: http.StatusRequestEntityTooLarge, query.ErrorCanceled: statusClientClosed,
			query.ErrorUnavailable: http.StatusServiceUnavailable, query.ErrorInternal: http.StatusInternalServerError,
		}[failed.Type]
	case errors.Is(err, storage.ErrUnavailable), errors.Is(err, ingest.ErrClosed), errors.Is(err, tombstone.ErrOvertaken):
		return http.StatusServiceUnavailable
	case errors.As(err, &limit):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, context.Canceled):
		return statusClientClosed
	}
	return http.StatusInternalServerError
}

// refuse answers an error in OpenTSDB's JSON.
func refuse(w http.ResponseWriter, err error) {
	status := statusOf(err)
	w.Header().Set("Content-Type", contentType)
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	message, details := err.Error(), ""
	if wrong := new(request.Error); errors.As(err, &wrong) && wrong.Details != "" {
		message, details = wrong.Message(), wrong.Details
	}
	body := append([]byte(`{"error":{"code":`), strconv.Itoa(status)...)
	body = append(body, `,"message":`...)
	body = promjson.AppendString(body, message)
	if details != "" {
		body = append(body, `,"details":`...)
		body = promjson.AppendString(body, details)
	}
	// A failed write means that the client is gone.
	_, _ = w.Write(append(body, `}}`...))
}
