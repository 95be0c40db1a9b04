package api

import "net/http"

// Server answers the HTTP API. Make one with New.
type Server struct {
	opts    Options
	handler http.Handler
}

// New checks opts and builds a Server. The error lists every fault of the options.
func New(opts Options) (*Server, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	s := &Server{opts: opts}
	return s, nil
}

// Handler returns the handler of all endpoints.
func (s *Server) Handler() http.Handler { return s.handler }
