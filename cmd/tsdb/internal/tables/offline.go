package tables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/cmd/tsdb/internal/datadir"
	"halite/ingest/wal"
	"halite/keyschema/daychunk"
	"halite/storage"
	"halite/storage/pebble"
	"halite/storage/pebble/daycells"
)

// OfflineFlags holds the flags of commands that work on tables without a server.
type OfflineFlags struct {
	Engine, StoragePath string
	Bigtable            BigtableFlags
}

func (c *OfflineFlags) AddFlags(cmd *kingpin.CmdClause) {
	cmd.Flag("storage.engine", "Where the tables are: pebble, in --storage.path, or bigtable, in Google Cloud Bigtable.").
		Default(EnginePebble).EnumVar(&c.Engine, EnginePebble, EngineBigtable)
	cmd.Flag("storage.path", "Directory of the server, which must have stopped.").Default("./data").StringVar(&c.StoragePath)
	c.Bigtable.AddFlags(cmd)
}

// Open opens the tables for reading. On one machine it locks the directory and changes nothing else in it. Tables in Bigtable may
// be in use.
func (c *OfflineFlags) Open(ctx context.Context) (storage.Store, error) {
	if c.Engine == EngineBigtable {
		if err := c.Bigtable.Validate(); err != nil {
			return nil, err
		}
		return c.Bigtable.Open(ctx, OpenOptions{})
	}
	return c.openLocal(pebble.Options{ReadOnly: true})
}

// openLocal opens the tables of the directory, which must exist.
func (c *OfflineFlags) openLocal(opts pebble.Options) (storage.Store, error) {
	if _, err := os.Stat(datadir.TablesDir(c.StoragePath)); err != nil {
		return nil, fmt.Errorf("%s holds no tables of this server (--storage.engine names another engine): %w", c.StoragePath,
			err)
	}
	return OpenExclusive(c.StoragePath, opts)
}

// OpenExclusive opens the tables below a directory that no server uses.
func OpenExclusive(path string, opts pebble.Options) (storage.Store, error) {
	lock, err := datadir.Lock(path)
	if err != nil {
		return nil, err
	}
	opts.Dir, opts.DayChunks, opts.DayChunkInterval = datadir.TablesDir(path), DayChunkCodec(), -1
	store, err := pebble.Open(opts)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &lockedStore{store, lock}, nil
}

// OpenExclusive opens the tables of a stopped server. Nobody else writes to them until they are closed.
func (c *OfflineFlags) OpenExclusive(ctx context.Context) (storage.Store, error) {
	server := Identity{Engine: c.Engine, StoragePath: c.StoragePath}
	if c.Engine == EnginePebble {
		return c.openLocal(pebble.Options{Admit: func(tables storage.Store) (pebble.Admission, error) {
			return server.Check(ctx, tables, nil)
		}})
	}
	store, err := c.Open(ctx)
	if err != nil {
		return nil, err
	}
	lock, err := datadir.Lock(c.StoragePath)
	if errors.Is(err, storage.ErrLocked) {
		err = fmt.Errorf("stop its server first: %w", err)
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	store = &lockedStore{store, lock}
	err = Claim(ctx, store, c.StoragePath, false, time.Now())
	if err == nil {
		_, err = server.Check(ctx, store, nil)
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	log, err := wal.Open(wal.Options{Dir: datadir.WALDir(c.StoragePath), FS: vfs.Default})
	if errors.Is(err, wal.ErrLocked) {
		err = fmt.Errorf("%s is in use: stop its server first: %w", c.StoragePath, err)
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &lockedStore{store, log}, nil
}

// lockedStore is a store that also holds the lock of the server's directory.
type lockedStore struct {
	storage.Store
	lock io.Closer
}

// Close is part of storage.Store.
func (s *lockedStore) Close() error { return errors.Join(s.Store.Close(), s.lock.Close()) }

// DayChunkCodec packs the chunks of one series and day. The engine only calls it.
func DayChunkCodec() *daycells.Codec {
	return &daycells.Codec{Name: daychunk.Format, Append: daychunk.Append,
		NewDecoder: func() daycells.Decoder { return new(daychunk.Decoder) }}
}
