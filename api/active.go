package api

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// activeQuery is a query under way. Times of the query are unix milliseconds, as in the endpoint of the same name that
// other databases have.
type activeQuery struct {
	ID         string  `json:"id"`
	Duration   string  `json:"duration"`
	RemoteAddr string  `json:"remote_addr"`
	Query      string  `json:"query"`
	Kind       string  `json:"kind"`
	Start      int64   `json:"start"`
	End        int64   `json:"end"`
	Step       int64   `json:"step"`
	Waiting    bool    `json:"waiting"`
	Samples    int64   `json:"samples"`
	Since      float64 `json:"since"`
}

// activeQueries answers /api/v1/status/active_queries: the queries that run or wait, oldest first.
func (s *Server) activeQueries(*http.Request) (reply, *apiError) {
	now := s.opts.Now()
	list := []activeQuery{}
	for _, q := range s.opts.Engine.Active() {
		list = append(list, activeQuery{
			ID: strconv.FormatUint(q.ID, 10), Duration: max(0, now.Sub(q.Start)).Round(time.Millisecond).String(),
			RemoteAddr: q.Client, Query: q.Query, Kind: q.Kind, Start: q.FromMs, End: q.ToMs, Step: q.StepMs,
			Waiting: q.Waiting, Samples: q.Samples, Since: float64(q.Start.UnixMilli()) / 1000,
		})
	}
	return document(list)
}

// cancelQuery answers /api/v1/admin/cancel_query: it ends the query with the given id, whose caller is told so.
func (s *Server) cancelQuery(r *http.Request) (reply, *apiError) {
	if aerr := s.allowAdmin(); aerr != nil {
		return reply{}, aerr
	}
	text := r.FormValue("id")
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return reply{}, badParam("id", errors.New("must be the id of a query in /api/v1/status/active_queries"))
	}
	if !s.opts.Engine.Cancel(id) {
		return reply{}, &apiError{typ: errNotFound, err: fmt.Errorf("no query with id %d is running", id)}
	}
	return reply{}, nil
}
