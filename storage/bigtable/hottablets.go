package bigtable

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	admin "cloud.google.com/go/bigtable/admin/apiv2"
	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	pages "google.golang.org/api/iterator"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"halite/storage"
)

const (
	// hotTabletsAge is how long the service remembers hot tablets, and hotTabletsSpan is the longest time of one request.
	hotTabletsAge  = 14 * 24 * time.Hour
	hotTabletsSpan = 48 * time.Hour
	// hotTabletsGrain is the resolution of the service. The store reuses a response for the same time. So a page that
	// reloads often causes at most one call a minute.
	hotTabletsGrain = time.Minute
)

// hotTablets requests the hot tablets of one cluster from the service, and keeps the last response.
type hotTablets struct {
	client *admin.BigtableInstanceAdminClient

	mu           sync.Mutex // held during a call, so that concurrent requests share it
	fromMs, toMs int64      // times of the last response; 0 before the first one
	tablets      []storage.HotTablet
	err          error
}

// connectHotTablets creates the client that lists hot tablets. It sends nothing.
func (s *Store) connectHotTablets(ctx context.Context, common []option.ClientOption) error {
	if s.conn != nil {
		s.opts.Logger.Info("an emulator has no hot tablets; the server does not list them", "cluster", s.opts.Cluster)
		return nil
	}
	client, err := admin.NewBigtableInstanceAdminClient(ctx, common...)
	if err != nil {
		return err
	}
	s.hot = &hotTablets{client: client}
	return nil
}

// ListsHotTablets reports whether HotTablets lists tablets: Options name a cluster, and the instance is not an emulator.
func (s *Store) ListsHotTablets() bool { return s.hot != nil }

// HotTablets lists the hot tablets of the cluster whose load begins from fromMs to before toMs, milliseconds since 1970. The
// tablet with the most load comes first. The service keeps the last 14 days and lists at most 48 hours, so a longer request
// gets its last 48 hours. A result is at most a minute old. The error says how to solve the problem. Calls within the same
// minute return the same error.
func (s *Store) HotTablets(ctx context.Context, fromMs, toMs int64) ([]storage.HotTablet, error) {
	if s.closed.Load() {
		return nil, errClosed
	}
	now := s.opts.Now()
	toMs = time.UnixMilli(min(toMs, now.UnixMilli())).Truncate(hotTabletsGrain).UnixMilli()
	// One more minute keeps the request within the service's bounds while the call is under way.
	oldest := max(now.Add(-hotTabletsAge).UnixMilli(), toMs-hotTabletsSpan.Milliseconds()) + hotTabletsGrain.Milliseconds()
	fromMs = time.UnixMilli(max(fromMs, oldest)).Truncate(hotTabletsGrain).UnixMilli()
	if fromMs >= toMs {
		return nil, nil
	}
	h := s.hot
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fromMs == fromMs && h.toMs == toMs {
		return h.tablets, h.err
	}
	call, cancel := context.WithTimeout(ctx, s.opts.HotTabletsTimeout)
	defer cancel()
	tablets, err := s.listHotTablets(call, fromMs, toMs)
	if err != nil {
		err = s.hotTabletsError(ctx, err)
	}
	if ctx.Err() != nil {
		return nil, err // a canceled call says nothing about the service
	}
	h.fromMs, h.toMs, h.tablets, h.err = fromMs, toMs, tablets, err
	return tablets, err
}

// listHotTablets calls the service, page by page. It omits tables of other databases.
func (s *Store) listHotTablets(ctx context.Context, fromMs, toMs int64) ([]storage.HotTablet, error) {
	list := s.hot.client.ListHotTablets(ctx, &adminpb.ListHotTabletsRequest{
		Parent:    s.instanceName() + "/clusters/" + s.opts.Cluster,
		StartTime: timestamppb.New(time.UnixMilli(fromMs)), EndTime: timestamppb.New(time.UnixMilli(toMs)),
		PageSize: int32(s.opts.HotTabletsMax),
	})
	var out []storage.HotTablet
	for len(out) < s.opts.HotTabletsMax {
		t, err := list.Next()
		if errors.Is(err, pages.Done) {
			break
		}
		if err != nil {
			return nil, err
		}
		name, ours := strings.CutPrefix(path.Base(t.GetTableName()), s.opts.TablePrefix)
		if !ours {
			continue
		}
		out = append(out, storage.HotTablet{
			Table: name, StartKey: []byte(t.GetStartKey()), EndKey: []byte(t.GetEndKey()), FromMs: t.GetStartTime().AsTime().UnixMilli(),
			ToMs: t.GetEndTime().AsTime().UnixMilli(), CPUPercent: float64(t.GetNodeCpuUsagePercent()),
		})
	}
	return out, nil
}

func (s *Store) hotTabletsError(ctx context.Context, err error) error {
	switch status.Code(err) {
	case codes.PermissionDenied:
		return fmt.Errorf("bigtable: list hot tablets: the account lacks a role: it needs roles/bigtable.viewer on the instance: %w",
			err)
	case codes.NotFound:
		return fmt.Errorf("bigtable: list hot tablets: the instance has no cluster %q: check its name with "+
			"`gcloud bigtable clusters list`: %w", s.opts.Cluster, err)
	}
	return mapError(ctx, "list hot tablets", err)
}
