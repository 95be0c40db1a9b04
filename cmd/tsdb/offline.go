package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/ingest/wal"
	"halite/storage"
	"halite/storage/pebble"
)

// offlineConfig holds the flags of commands that work on tables without a server.
type offlineConfig struct {
	engine, storagePath string
	bigtable            bigtableConfig
}

func (c *offlineConfig) addFlags(cmd *kingpin.CmdClause) {
	cmd.Flag("storage.engine", "Where the tables are: pebble, in --storage.path, or bigtable, in Google Cloud Bigtable.").
		Default(enginePebble).EnumVar(&c.engine, enginePebble, engineBigtable)
	cmd.Flag("storage.path", "Directory of the server, which must have stopped.").Default("./data").StringVar(&c.storagePath)
	c.bigtable.addFlags(cmd)
}

// open opens the tables to read them. On one machine that takes the lock of the directory and changes nothing else in it;
// tables in Bigtable may be in use.
func (c *offlineConfig) open(ctx context.Context) (storage.Store, error) {
	if c.engine == engineBigtable {
		if err := c.bigtable.Validate(); err != nil {
			return nil, err
		}
		return openBigtable(ctx, c.bigtable.options())
	}
	return c.openLocal(pebble.Options{ReadOnly: true})
}

// openLocal opens the tables of the directory, which must exist.
func (c *offlineConfig) openLocal(opts pebble.Options) (storage.Store, error) {
	if _, err := os.Stat(tablesDir(c.storagePath)); err != nil {
		return nil, fmt.Errorf("%s holds no tables of this server (another engine is named by --storage.engine): %w", c.storagePath,
			err)
	}
	return openTablesAlone(c.storagePath, opts)
}

// openTablesAlone opens the tables below a directory that no server uses.
func openTablesAlone(path string, opts pebble.Options) (storage.Store, error) {
	lock, err := lockStorage(path)
	if err != nil {
		return nil, err
	}
	opts.Dir, opts.DayChunks, opts.DayChunkInterval = tablesDir(path), dayChunkCodec(), -1
	store, err := pebble.Open(opts)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &lockedStore{store, lock}, nil
}

// openAlone opens the tables so that nobody else writes to them until they are closed: their server has stopped.
func (c *offlineConfig) openAlone(ctx context.Context) (storage.Store, error) {
	server := serveConfig{engine: c.engine, storagePath: c.storagePath}
	if c.engine == enginePebble {
		return c.openLocal(pebble.Options{Admit: func(tables storage.Store) (pebble.Admission, error) {
			return server.checkIdentity(ctx, tables, nil)
		}})
	}
	store, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	lock, err := lockStorage(c.storagePath)
	if errors.Is(err, storage.ErrLocked) {
		err = fmt.Errorf("stop its server first: %w", err)
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	store = &lockedStore{store, lock}
	err = claim(ctx, store, c.storagePath, false, time.Now())
	if err == nil {
		_, err = server.checkIdentity(ctx, store, nil)
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	log, err := wal.Open(wal.Options{Dir: walDir(c.storagePath), FS: vfs.Default})
	if errors.Is(err, wal.ErrLocked) {
		err = fmt.Errorf("%s is in use: stop its server first: %w", c.storagePath, err)
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &lockedStore{store, log}, nil
}

// lockedStore is a store whose server's directory is locked as well.
type lockedStore struct {
	storage.Store
	lock io.Closer
}

// Close is part of storage.Store.
func (s *lockedStore) Close() error { return errors.Join(s.Store.Close(), s.lock.Close()) }
