package tombstone

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"halite/storage/periodic"
)

// ErrUnsure is returned if a power loss may lose a deletion. The caller must not store results that depend on it, and may
// retry.
var ErrUnsure = errors.New("a deletion is not durable yet")

const (
	// sureWaitMax is the time that Stable waits for deletions to become durable, sureWait the time between two checks.
	sureWaitMax = 30 * time.Second
	sureWait    = time.Millisecond
)

// Confirm records that no power loss can lose an added tombstone.
func (s *Set) Confirm(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unsure, id)
}

// SnapshotExclusive returns a view of the current tombstones after all views that lack one of them are released.
func (s *Set) SnapshotExclusive(ctx context.Context) (*View, error) {
	s.mu.Lock()
	return s.snapshotExclusive(ctx)
}

// snapshotExclusive is SnapshotExclusive with mu locked, which it unlocks.
func (s *Set) snapshotExclusive(ctx context.Context) (*View, error) {
	v, older := s.viewLocked(), slices.Collect(maps.Keys(s.older))
	s.mu.Unlock()
	for _, o := range older {
		select {
		case <-o.done:
		case <-ctx.Done():
			v.Release()
			return nil, fmt.Errorf("wait for the queries that started before a deletion: %w", context.Cause(ctx))
		}
	}
	return v, nil
}

// Stable is SnapshotExclusive for callers that store results: all tombstones of the view are durable. It fails with ErrUnsure
// if one does not become durable.
func (s *Set) Stable(ctx context.Context) (*View, error) {
	for deadline := time.Now().Add(sureWaitMax); ; {
		s.mu.Lock()
		if len(s.unsure) == 0 {
			return s.snapshotExclusive(ctx)
		}
		s.mu.Unlock()
		if time.Now().After(deadline) {
			return nil, ErrUnsure
		}
		if err := periodic.Sleep(ctx, sureWait); err != nil {
			return nil, err
		}
	}
}
