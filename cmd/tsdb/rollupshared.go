package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"halite/rollup/job"
	rollupstore "halite/rollup/store"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/lease"
)

// open opens the tables. It opens the tables of a single server exclusively, so the server must have stopped. It shares the
// tables of servers in mode direct, and creates and changes nothing in them.
func (c *rollupCommands) open(ctx context.Context) (store storage.Store, shared bool, err error) {
	if c.packDelay <= 0 {
		return nil, false, errors.New("--bigtable.pack-delay must be above 0")
	}
	if c.tables.engine != engineBigtable {
		store, err = c.tables.openAlone(ctx)
		return store, false, err
	}
	tables := c.tables
	tables.bigtable.checkTablesOnly = true
	if store, err = tables.open(ctx); err != nil {
		return nil, false, err
	}
	if shared, err = isShared(ctx, store); err == nil && shared {
		return store, true, nil
	}
	if err = errors.Join(err, store.Close()); err != nil {
		return nil, false, err
	}
	store, err = c.tables.openAlone(ctx)
	return store, false, err
}

// isShared reports whether the tables belong to servers in mode direct.
func isShared(ctx context.Context, store storage.Store) (bool, error) {
	meta, err := store.Table(ctx, storage.TableMeta)
	if err != nil {
		return false, err
	}
	them, err := readOwner(ctx, meta)
	if err != nil {
		return false, fmt.Errorf("read the owner of the tables: %w", err)
	}
	return them.Mode == modeDirect, nil
}

// runShared works on tables while servers use them.
func (c *rollupCommands) runShared(
	ctx context.Context, store storage.Store, rebuild bool, first, last int64, w io.Writer,
) (err error) {
	schemas, err := store.Tables(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(schemas, func(s storage.TableSchema) bool { return s.Name == storage.TableRollup }) {
		return fmt.Errorf("there is no table %s: these servers have no rollups (--storage.rollups)", storage.TableRollup)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	as := &serveConfig{engine: engineBigtable, directMode: directConfig{mode: modeDirect}}
	deleted, undeleted, err := openTombstones(ctx, as, store, log, nil)
	if err != nil {
		return err
	}
	meta, err := store.Table(ctx, storage.TableMeta)
	if err != nil {
		return err
	}
	turn, err := lease.NewKeeper(lease.Options{Meta: meta, Name: rollupLease, Holder: index.NewWriter()}, log)
	if err != nil {
		return err
	}
	if rebuild {
		turn.Start()
		defer func() { err = errors.Join(err, turn.Close(context.WithoutCancel(ctx))) }()
	}
	return runRollupJob(ctx, store, rollupstore.Options{
		Tables: undeleted, Deletions: deleted, Reset: c.reset && rebuild, Logger: log,
		Shared: &rollupstore.Shared{Turn: turn.Held, Margin: c.packDelay, Fresh: deleted.Refresh},
	}, job.Options{Share: 1, Settle: -1, Interval: min(10*time.Second, c.packDelay/4)}, rebuild, first, last, w)
}
