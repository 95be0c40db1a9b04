package api

import (
	"fmt"
	"net/http"
	"sync"

	"golang.org/x/sync/semaphore"

	"halite/api/opentsdb/querystats"
	"halite/api/receiver"
	"halite/api/ui"
)

// Server answers the HTTP API. Make one with New. Its handlers share the fields.
type Server struct {
	opts    Options
	metrics *metrics
	handler http.Handler
	routes  []*route                    // all routes except the one for unknown paths
	buffers bufferPool                  // bodies and responses
	origins *http.CrossOriginProtection // of requests that change something
	hosts   ui.Hosts

	writeBytes *semaphore.Weighted // bytes of write bodies in memory
	lookups    *semaphore.Weighted
	reads      *semaphore.Weighted
	crashLoops receiver.CrashLoops
	decoder    receiver.Decoder // of write bodies

	aliasDeleter  Deleter          // by the names of responses; nil without opts.Deleter
	openTSDBStats *querystats.List // queries of OpenTSDB's clients
}

// newServer checks opts and returns a Server without handlers.
func newServer(opts Options) (*Server, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(opts.Registerer)
	if err != nil {
		return nil, fmt.Errorf("api: register metrics: %w", err)
	}
	var shown Deleter
	if opts.Deleter != nil {
		shown, opts.Deleter = newAliasDeleter(opts.Deleter, opts.Index), restrictedDeleter{opts.Deleter}
	}
	l := &opts.Limits
	return &Server{
		opts: opts, aliasDeleter: shown, metrics: m,
		buffers: bufferPool{bytesMax: l.BufferBytesMax}, origins: http.NewCrossOriginProtection(),
		openTSDBStats: querystats.New(opts.Now),
		hosts:         ui.NewHosts(),
		writeBytes:    semaphore.NewWeighted(l.WriteInflightBytesMax),
		lookups:       semaphore.NewWeighted(int64(l.LookupConcurrencyMax)),
		reads:         semaphore.NewWeighted(int64(l.ReadConcurrencyMax)),
	}, nil
}

// Handler returns the handler of all endpoints.
func (s *Server) Handler() http.Handler { return s.handler }

// bufferPool keeps byte slices between requests. It leaves slices over bytesMax to the garbage collector, so that one large
// request does not keep its memory forever.
type bufferPool struct {
	bytesMax int
	pool     sync.Pool
}

// get returns an empty slice of some capacity.
func (p *bufferPool) get() *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return b
	}
	return new([]byte)
}

// put returns a slice to the pool. The caller must not use it any more.
func (p *bufferPool) put(b *[]byte) {
	if cap(*b) > p.bytesMax {
		return
	}
	*b = (*b)[:0]
	p.pool.Put(b)
}
