package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halite/keyschema"
	"halite/storage"
)

const (
	// metadataInterval is the time between two exchanges of what senders said about metrics.
	metadataInterval = 30 * time.Second
	// lookTimeout bounds one look for news.
	lookTimeout = 30 * time.Second
)

// startJobs starts the goroutines that Close ends.
func (t *Through) startJobs() {
	if t.opts.Refresh < 0 {
		return
	}
	job := func(what string, interval time.Duration, run func(ctx context.Context) error) {
		t.jobs.AddNow(interval, func(ctx context.Context) {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				t.logger.Error(what+" failed; the next run retries", "err", err)
			}
		})
	}
	t.lease.Start()
	job("look for what other servers have written", t.opts.Refresh, t.look)
	job("packing of closed hours", t.opts.PackInterval, t.ifHeld(t.Pack))
	job("fold of closed days", t.opts.MaintainInterval, t.ifHeld(t.index.Fold))
	if t.opts.Tombstones != nil {
		job("removal of deleted series from the index", t.opts.PackInterval, t.ifHeld(t.maintainDeletions))
	}
	job("maintenance", t.opts.MaintainInterval, t.maintain)
	job("exchange of metadata", metadataInterval, t.exchangeMetadata)
	t.jobs.Add(t.opts.PackInterval, nil, func(context.Context) { t.forgetNotes() })
}

// look takes in what other servers have written and asks whether the tables are still ours to write.
func (t *Through) look(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			t.lookFails.Inc()
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	began := t.now().UnixMilli()
	if err := t.index.Refresh(ctx); err != nil {
		return err
	}
	t.lookedAt.Store(began)
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

func (t *Through) ifHeld(run func(ctx context.Context) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		if !t.lease.Held() {
			return nil
		}
		return run(ctx)
	}
}

// exchangeMetadata writes what is new and reads what others wrote.
func (t *Through) exchangeMetadata(ctx context.Context) error {
	if err := t.PersistMetadata(ctx); err != nil {
		return err
	}
	return t.LoadMetadata(ctx)
}

// maintain frees memory of the catalogue and forgets series without samples for long.
func (t *Through) maintain(ctx context.Context) error {
	if err := t.index.Maintain(ctx); err != nil {
		t.metrics.maintFails.Inc()
		return err
	}
	before := t.now().Add(-t.opts.IdleAfter).UnixMilli() / keyschema.HourMs
	return t.CollectSeries(ctx, before, func(uint32) {})
}

// forgetNotes forgets which hours have a note once only late samples can come for them.
func (t *Through) forgetNotes() {
	t.notesMu.Lock()
	defer t.notesMu.Unlock()
	for hour := range t.noted {
		if t.late(hour) {
			delete(t.noted, hour)
		}
	}
}
