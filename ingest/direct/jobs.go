package direct

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halite/keyschema"
	"halite/storage"
)

const (
	// metadataInterval is the time between two exchanges of metadata.
	metadataInterval = 30 * time.Second
	// refreshTimeout bounds one refresh.
	refreshTimeout = 30 * time.Second
)

// startJobs starts the goroutines that Close ends.
func (t *Direct) startJobs() {
	if t.opts.Refresh < 0 {
		return
	}
	job := func(what string, interval time.Duration, run func(ctx context.Context) error) {
		t.jobs.AddNow(interval, func(ctx context.Context) {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				t.opts.Logger.Error(what+" failed; the next run retries", "err", err)
			}
		})
	}
	t.lease.Start()
	job("refresh of what other servers have written", t.opts.Refresh, t.refresh)
	job("packing of closed hours", t.opts.PackInterval, t.ifHeld(t.Pack))
	job("compaction of closed index days", t.opts.MaintainInterval, t.ifHeld(t.opts.Index.Compact))
	if t.opts.Tombstones != nil {
		job("removal of deleted series from the index", t.opts.PackInterval, t.ifHeld(t.maintainDeletions))
	}
	job("maintenance", t.opts.MaintainInterval, t.maintain)
	job("exchange of metadata", metadataInterval, t.exchangeMetadata)
	t.jobs.Add(t.opts.PackInterval, nil, func(context.Context) { t.dropNotes() })
}

// refresh reads what other servers have written and calls Guard.
func (t *Direct) refresh(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			t.refreshFailures.Inc()
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	began := t.opts.Now().UnixMilli()
	if err := t.opts.Index.Refresh(ctx); err != nil {
		return err
	}
	t.refreshedMs.Store(began)
	if t.opts.Guard == nil {
		return nil
	}
	switch err := t.opts.Guard(ctx); {
	case errors.Is(err, storage.ErrUnavailable):
		return err
	case err != nil:
		t.Block(err.Error())
		return fmt.Errorf("writes are refused: %w", err)
	}
	t.Unblock()
	return nil
}

func (t *Direct) ifHeld(run func(ctx context.Context) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		if !t.lease.Held() {
			return nil
		}
		return run(ctx)
	}
}

// exchangeMetadata writes new metadata and reads the metadata of other servers.
func (t *Direct) exchangeMetadata(ctx context.Context) error {
	if err := t.PersistMetadata(ctx); err != nil {
		return err
	}
	return t.LoadMetadata(ctx)
}

// maintain frees memory of the index and removes idle series.
func (t *Direct) maintain(ctx context.Context) error {
	if err := t.opts.Index.Maintain(ctx); err != nil {
		t.CountMaintenanceFailure()
		return err
	}
	before := t.opts.Now().Add(-t.opts.IdleAfter).UnixMilli() / keyschema.HourMs
	return t.CollectSeries(ctx, before, func(uint32) {})
}

// dropNotes removes the notes of hours that can get only late samples.
func (t *Direct) dropNotes() {
	t.notesMu.Lock()
	defer t.notesMu.Unlock()
	for hour := range t.noted {
		if t.late(hour) {
			delete(t.noted, hour)
		}
	}
}
