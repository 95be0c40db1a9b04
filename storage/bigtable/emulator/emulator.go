package emulator

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"cloud.google.com/go/bigtable/bttest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// messageBytesMax bounds one message in either direction, as the service's clients do.
const messageBytesMax = 1 << 28

// Server is a running emulator.
type Server struct {
	server *bttest.Server
	gate   gate
}

// Options configure Start.
type Options struct {
	// ListenAddress is HOST:PORT; port 0 takes a free one. Empty means 127.0.0.1:0.
	ListenAddress string
	// Unary and Stream see each request before the emulator does; tests inject faults with them. Nil means none.
	Unary  grpc.UnaryServerInterceptor
	Stream grpc.StreamServerInterceptor
}

// Start listens and serves until Close.
func Start(opts Options) (*Server, error) {
	if opts.ListenAddress == "" {
		opts.ListenAddress = "127.0.0.1:0"
	}
	s := &Server{}
	var unary []grpc.UnaryServerInterceptor
	var stream []grpc.StreamServerInterceptor
	if opts.Unary != nil {
		unary = append(unary, opts.Unary)
	}
	if opts.Stream != nil {
		stream = append(stream, opts.Stream)
	}
	server, err := bttest.NewServer(opts.ListenAddress,
		grpc.MaxRecvMsgSize(messageBytesMax), grpc.MaxSendMsgSize(messageBytesMax),
		grpc.ChainUnaryInterceptor(append(unary, s.gate.unary)...),
		grpc.ChainStreamInterceptor(append(stream, s.gate.stream)...))
	if err != nil {
		return nil, fmt.Errorf("start the emulator: %w", err)
	}
	s.server = server
	return s, nil
}

// Addr is the address of the emulator for clients, in the form of BIGTABLE_EMULATOR_HOST.
func (s *Server) Addr() string { return s.server.Addr }

// Close stops the emulator; its data is gone.
func (s *Server) Close() { s.server.Close() }

// gate lets reads run together, and every other request alone.
type gate struct{ mu sync.RWMutex }

func (g *gate) enter(method string) (leave func()) {
	for _, read := range []string{"/ReadRows", "/SampleRowKeys", "/GetTable", "/ListTables", "/PingAndWarm"} {
		if strings.HasSuffix(method, read) {
			g.mu.RLock()
			return g.mu.RUnlock
		}
	}
	g.mu.Lock()
	return g.mu.Unlock
}

func (g *gate) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	defer g.enter(info.FullMethod)()
	// Do not serve a client that has given up while it waited for the gate.
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	return handler(ctx, req)
}

func (g *gate) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	held := &heldStream{ServerStream: stream, gate: g, method: info.FullMethod}
	err := held.run(srv, handler)
	for _, m := range held.sent {
		if sendErr := stream.SendMsg(m); sendErr != nil {
			return sendErr
		}
	}
	return err
}

// heldStream enters the gate when the request has arrived, and keeps the messages that the handler sends.
type heldStream struct {
	grpc.ServerStream
	gate   *gate
	method string
	leave  func()
	sent   []any
}

func (s *heldStream) run(srv any, handler grpc.StreamHandler) error {
	defer func() {
		if s.leave != nil {
			s.leave()
		}
	}()
	return handler(srv, s)
}

func (s *heldStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil || s.leave != nil {
		return err
	}
	s.leave = s.gate.enter(s.method)
	if err := s.Context().Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	return nil
}

// SendMsg keeps the message. It does not change later, because writers replace values of cells and never overwrite them.
func (s *heldStream) SendMsg(m any) error {
	if err := s.Context().Err(); err != nil {
		return err
	}
	s.sent = append(s.sent, m)
	return nil
}
