package api

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

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

// deleteSeries answers /api/v1/admin/tsdb/delete_series. Parameters are checked first, so that a wrong request is told
// from one that cannot be carried out.
func (s *Server) deleteSeries(r *http.Request) (reply, *apiError) {
	if aerr := s.allowAdmin(); aerr != nil {
		return reply{}, aerr
	}
	if aerr := strictForm(r); aerr != nil {
		return reply{}, aerr
	}
	selectors := r.Form["match[]"]
	if len(selectors) == 0 {
		return reply{}, badData(errors.New("no match[] parameter provided"))
	}
	if _, _, aerr := boundsParam(r); aerr != nil {
		return reply{}, aerr
	}
	for _, selector := range selectors {
		if _, err := s.opts.Engine.Parser().ParseMetricSelector(selector); err != nil {
			return reply{}, badParam("match[]", err)
		}
	}
	return reply{}, unavailable("series cannot be deleted through the API")
}

// cleanTombstones answers /api/v1/admin/tsdb/clean_tombstones.
func (s *Server) cleanTombstones(*http.Request) (reply, *apiError) {
	if aerr := s.allowAdmin(); aerr != nil {
		return reply{}, aerr
	}
	return reply{}, unavailable("there are no tombstones to clean")
}

// snapshot answers /api/v1/admin/tsdb/snapshot.
func (s *Server) snapshot(r *http.Request) (reply, *apiError) {
	if aerr := s.allowAdmin(); aerr != nil {
		return reply{}, aerr
	}
	if text := r.FormValue("skip_head"); text != "" {
		if _, err := strconv.ParseBool(text); err != nil {
			return reply{}, badParam("skip_head", fmt.Errorf("unable to parse boolean: %w", err))
		}
	}
	return reply{}, unavailable("snapshots cannot be taken through the API")
}
