package bigtable_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"halite/storage/bigtable/emulator"
)

// faults intercepts requests to an emulator and injects the faults of networks and services. Each kind hits one request
// in a hundred. Sometimes all requests fail for a while.
type faults struct {
	mu     sync.Mutex
	rng    *rand.Rand
	on     bool
	outage int // number of next requests to fail
	counts map[string]int
}

// Kinds of faults, by their effect.
const (
	unavailable = "unavailable" // the request has no effect
	deadline    = "deadline"    // the request has no effect
	aborted     = "aborted"     // the request has no effect
	lost        = "lost"        // the request succeeds, but the response says unavailable
	partial     = "partial"     // some rows done, others refused
	omitted     = "omitted"     // some rows done, no reply for others
	cut         = "cut"         // the stream breaks midway
	slow        = "slow"        // pauses between messages
	stuck       = "stuck"       // the stream stops without an end
	quota       = "quota"       // the stream breaks midway, and so do its retries
	outage      = "outage"
)

var (
	unaryKinds = []string{unavailable, deadline, aborted, lost}
	writeKinds = []string{unavailable, deadline, aborted, lost, partial, omitted}
	readKinds  = []string{unavailable, deadline, aborted, cut, slow, stuck, quota}
)

func newFaults(seed uint64) *faults {
	return &faults{rng: rand.New(rand.NewPCG(seed, 7)), counts: map[string]int{}}
}

func (f *faults) options() emulator.Options {
	return emulator.Options{Unary: f.unary, Stream: f.stream}
}

func (f *faults) enable(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on, f.outage = on, 0
}

func (f *faults) seen() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.counts)
}

// roll chooses the fault of a request; "" means none.
func (f *faults) roll(kinds []string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.on {
		return ""
	}
	kind := ""
	if n := f.rng.IntN(100); n < len(kinds) {
		kind = kinds[n]
	} else if f.rng.IntN(300) == 0 {
		f.outage = 12
	}
	if f.outage > 0 {
		f.outage--
		kind = outage
	}
	if kind != "" {
		f.counts[kind]++
	}
	return kind
}

func (f *faults) number(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rng.IntN(n)
}

// refused is the error of a fault that prevents the request.
func refused(kind string) error {
	switch kind {
	case unavailable, outage:
		return status.Error(codes.Unavailable, "injected")
	case deadline:
		return status.Error(codes.DeadlineExceeded, "injected")
	case aborted:
		return status.Error(codes.Aborted, "injected")
	}
	return nil
}

func (f *faults) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	switch path.Base(info.FullMethod) {
	case "MutateRow", "CheckAndMutateRow":
	default:
		return handler(ctx, req)
	}
	kind := f.roll(unaryKinds)
	if err := refused(kind); err != nil {
		return nil, err
	}
	resp, err := handler(ctx, req)
	if kind == lost {
		return nil, status.Error(codes.Unavailable, "injected: lost")
	}
	return resp, err
}

func (f *faults) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	var kinds []string
	switch path.Base(info.FullMethod) {
	case "MutateRows":
		kinds = writeKinds
	case "ReadRows":
		kinds = readKinds
	}
	kind := f.roll(kinds)
	if err := refused(kind); err != nil {
		return err
	}
	err := handler(srv, &faultyStream{ServerStream: stream, f: f, kind: kind, breakAt: f.number(20)})
	if kind == lost {
		return status.Error(codes.Unavailable, "injected: lost")
	}
	return err
}

// faultyStream is one stream of the emulator with one kind of fault.
type faultyStream struct {
	grpc.ServerStream
	f       *faults
	kind    string
	breakAt int // messages before a break
	places  []int
	skipped []int
}

func (s *faultyStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	req, ok := m.(*bigtablepb.MutateRowsRequest)
	if !ok || s.kind != partial && s.kind != omitted {
		return nil
	}
	kept := req.Entries[:0]
	for i, e := range req.Entries {
		if i > 0 && s.f.number(2) == 0 {
			s.skipped = append(s.skipped, i)
			continue
		}
		kept, s.places = append(kept, e), append(s.places, i)
	}
	req.Entries = kept
	return nil
}

func (s *faultyStream) SendMsg(m any) error {
	switch s.kind {
	case lost:
		return nil
	case partial, omitted:
		resp := m.(*bigtablepb.MutateRowsResponse)
		for _, e := range resp.Entries {
			e.Index = int64(s.places[e.Index])
		}
		for _, i := range s.skipped {
			if s.kind == partial {
				resp.Entries = append(resp.Entries, &bigtablepb.MutateRowsResponse_Entry{Index: int64(i),
					Status: &rpcstatus.Status{Code: int32(codes.Unavailable), Message: "injected: partial"}})
			}
		}
		slices.Reverse(resp.Entries)
	case slow:
		time.Sleep(2 * time.Millisecond)
	case cut, stuck, quota:
		if s.breakAt == 0 {
			switch s.kind {
			case cut:
				return status.Error(codes.Internal, "injected: stream terminated by RST_STREAM")
			case quota:
				return status.Error(codes.ResourceExhausted, "injected")
			}
			<-s.Context().Done()
			return s.Context().Err()
		}
		s.breakAt--
	}
	return s.ServerStream.SendMsg(m)
}
