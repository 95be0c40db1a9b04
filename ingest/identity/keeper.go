package identity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halite/ingest/wal"
	"halite/storage"
)

// Keeper keeps the cell of a store up to date while its log is open.
type Keeper struct {
	store storage.Store
	meta  storage.Table
	log   *wal.Log
	now   func() time.Time
	state state
}

// Open compares log and tables before the log is read, and sets the log aside if that loss is accepted. It logs nothing,
// because the caller logged an accepted loss when it opened the tables.
func Open(ctx context.Context, o Options, meta storage.Table, log *wal.Log, now func() time.Time) (*Keeper, error) {
	k := &Keeper{store: o.Store, meta: meta, log: log, now: now}
	o.Logger = nil
	verdict, err := Check(ctx, o)
	if err != nil {
		return nil, err
	}
	switch verdict {
	case SetTablesAside:
		return nil, errors.New("the tables belong to another log and cannot be set aside here: open the log with other tables")
	case SetLogAside:
		if err := log.SetAside(); err != nil {
			return nil, fmt.Errorf("set the write-ahead log aside: %w", err)
		}
	case Agreed:
		id, err := read(ctx, o.Store)
		if err != nil {
			return nil, err
		}
		if id != nil {
			k.state = *id
		}
	}
	return k, nil
}

// Bind makes the tables name the log. This start has begun the log's newest segment. The caller accepts writes only after
// Bind.
func (k *Keeper) Bind(ctx context.Context) (err error) {
	if k.state.Reached, err = k.log.SegmentID(k.log.Stats().Segment); err != nil {
		return fmt.Errorf("name the log's newest segment: %w", err)
	}
	if k.state.Synced.Log != k.state.Reached.Log {
		if k.state.Synced, err = k.log.SegmentID(k.log.FirstSegment()); err != nil {
			return fmt.Errorf("name the log's first segment: %w", err)
		}
	}
	k.state.Starts, k.state.Clean = k.log.Starts(), false
	if err := k.write(ctx); err != nil {
		return err
	}
	return k.store.Sync(ctx)
}

// Advance records that the log has reached segment newest, and that the tables hold all samples before segment point.
// The record takes effect with the next sync of the tables. drained means that no more samples will arrive.
func (k *Keeper) Advance(ctx context.Context, point, newest uint64, drained bool) (err error) {
	if k.state.Reached, err = k.log.SegmentID(newest); err != nil {
		return err
	}
	if point >= k.state.Synced.Segment {
		if k.state.Synced, err = k.log.SegmentID(point); err != nil {
			return err
		}
	}
	k.state.Clean = drained && point == newest
	return k.write(ctx)
}

func (k *Keeper) write(ctx context.Context) error {
	k.state.At = k.now().UTC()
	if err := identityCell().Write(ctx, k.meta, k.state); err != nil {
		return fmt.Errorf("note the log in the tables: %w", err)
	}
	return nil
}
