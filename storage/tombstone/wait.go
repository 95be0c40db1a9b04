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

// ErrUnsure: a deletion is not known to be durable, so that nothing may be stored that depends on it. Try again.
var ErrUnsure = errors.New("a deletion is not durable yet")

const (
	// sureWaitMax is how long Stable waits for deletions to become durable, sureWait how often it looks.
	sureWaitMax = 30 * time.Second
	sureWait    = time.Millisecond
)

// Confirm says that a tombstone which was added is sure to survive a loss of power.
func (s *Set) Confirm(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unsure, id)
}

// SnapshotExclusive is the view of now, once no view is held any more that lacks one of its tombstones.
func (s *Set) SnapshotExclusive(ctx context.Context) (*View, error) {
	s.mu.Lock()
	return s.snapshotExclusive(ctx)
}

// snapshotExclusive is SnapshotExclusive with mu locked, which it unlocks.
func (s *Set) snapshotExclusive(ctx context.Context) (*View, error) {
	v, older := s.take(), slices.Collect(maps.Keys(s.older))
	s.mu.Unlock()
	for _, o := range older {
		select {
		case <-o.done:
		case <-ctx.Done():
			v.Release()
			return nil, fmt.Errorf("wait for queries that began before a deletion: %w", context.Cause(ctx))
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
