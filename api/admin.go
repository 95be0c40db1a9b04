package api

import (
	"errors"
	"fmt"
	"net/http"

	"halite/storage"
)

// allowAdmin refuses requests unless the admin API is switched on.
func (s *Server) allowAdmin() *apiError {
	if s.opts.AdminAPI {
		return nil
	}
	return &apiError{typ: errUnavailable, status: http.StatusForbidden, err: errors.New("admin APIs disabled")}
}

// unavailable says that the server does not have a function of Prometheus, in the way of Prometheus' agent mode.
func unavailable(what string) *apiError {
	return &apiError{typ: errExec, err: fmt.Errorf("unavailable with Halite: %s", what)}
}

// flush answers /api/v1/admin/flush: everything accepted so far is in the tables when it returns.
func (s *Server) flush(r *http.Request) (reply, *apiError) {
	if aerr := s.allowAdmin(); aerr != nil {
		return reply{}, aerr
	}
	if s.opts.Flusher == nil {
		return reply{}, unavailable("there is no head to flush")
	}
	switch err := s.opts.Flusher.Flush(r.Context()); {
	case errors.Is(err, storage.ErrUnavailable):
		return reply{}, &apiError{typ: errUnavailable, err: fmt.Errorf("flush: %w", err)}
	case err != nil:
		return reply{}, &apiError{typ: errInternal, err: fmt.Errorf("flush: %w", err)}
	}
	return reply{}, nil
}

// snapshot answers /api/v1/admin/tsdb/snapshot.
func (s *Server) snapshot(r *http.Request) (reply, *apiError) {
	if aerr := s.allowAdmin(); aerr != nil {
		return reply{}, aerr
	}
	if _, aerr := boolParam(r, "skip_head"); aerr != nil {
		return reply{}, aerr
	}
	return reply{}, unavailable("snapshots cannot be taken through the API")
}
