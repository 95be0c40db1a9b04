package tables

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"halite/cmd/tsdb/internal/datadir"
	"halite/storage"
	"halite/storage/jsoncell"
)

// A server with a log and a head on a local disk must be the only writer of its tables. It alone assigns chunk numbers and
// keeps the index of the open day. On a local engine the lock of the directory ensures this. Tables in Bigtable name their
// owner, a directory, in one row of table meta.
const (
	ownerRow       = "owner"
	ownerQualifier = "directory"
	ownerFile      = "id"
	ownerIDBytes   = 16
	ownerBytesMax  = 64 << 10
)

func ownerCell() jsoncell.Cell {
	return jsoncell.Cell{Row: ownerRow, Qualifier: ownerQualifier, BytesMax: ownerBytesMax,
		Remedy: "stop all servers of these tables, then start one with --bigtable.take-over, which rewrites it"}
}

// Owner is what the row holds.
type Owner struct {
	// ID is the random name in the file id of the directory.
	ID string `json:"id"`
	// Host and Path say where that directory is. They are for people.
	Host  string    `json:"host"`
	Path  string    `json:"path"`
	Since time.Time `json:"since"`
	// Mode is ModeDirect if any number of servers without a log share the tables. Then all other fields except Since are empty.
	Mode string `json:"mode,omitempty"`
}

// Claim makes the directory at path the owner of the store's tables. If another directory owns them, Claim fails, unless takeOver
// is set.
func Claim(ctx context.Context, store storage.Store, path string, takeOver bool, now time.Time) error {
	meta, err := store.EnsureTable(ctx, storage.MetaSchema())
	if err != nil {
		return err
	}
	id, err := directoryID(path)
	if err != nil {
		return err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	owner, err := own(ctx, meta, Owner{ID: id, Host: host, Path: absolute, Since: now.UTC()}, takeOver)
	switch {
	case err != nil:
		return err
	case owner.Mode == ModeDirect:
		return fmt.Errorf("servers in mode %s have shared the tables since %s: start this server with "+
			"--bigtable.mode=%[1]s, or stop those servers and start this one with --bigtable.take-over",
			ModeDirect, owner.Since.Format(time.RFC3339))
	case owner.ID != id:
		return owner.taken()
	}
	return nil
}

// taken is the error that another server owns the tables.
func (o *Owner) taken() error {
	return fmt.Errorf("the tables belong to the server with directory %s on %s since %s. Its log may hold samples that "+
		"are not in the tables yet: stop that server (it flushes when it stops), then start this one with "+
		"--bigtable.take-over",
		o.Path, o.Host, o.Since.Format(time.RFC3339))
}

// own makes us the owner of the tables and returns the owner. If the tables have an owner, it does so only with takeOver.
func own(ctx context.Context, meta storage.Table, us Owner, takeOver bool) (Owner, error) {
	entry, err := ownerCell().Entry(us)
	if err != nil {
		return Owner{}, err
	}
	write := storage.RowMutation{Key: []byte(ownerRow), Entries: []storage.Entry{entry}}
	if takeOver {
		if err := meta.Apply(ctx, []storage.RowMutation{write}); err != nil {
			return Owner{}, err
		}
		return us, nil
	}
	owned, err := meta.CheckAndApply(ctx, []byte(ownerRow), storage.Filter{}, storage.RowMutation{}, write)
	switch {
	case err == nil && !owned:
		return us, nil
	case err != nil && !errors.Is(err, storage.ErrUnavailable):
		return Owner{}, err
	}
	// The response may be lost after the row was written. The row itself names the owner.
	owner, readErr := ReadOwner(ctx, meta)
	switch {
	case readErr != nil:
		return Owner{}, errors.Join(err, readErr)
	case !owner.Since.IsZero():
		return owner, nil
	case err != nil:
		return Owner{}, err
	}
	return Owner{}, fmt.Errorf("%w: %s disappeared during the start: start again", storage.ErrUnavailable, ownerCell())
}

// RemoveOwner removes the owner from tables that were copied from Bigtable to this machine, where the lock of the directory
// protects them. Otherwise, after a copy back, they would seem to belong to the previous server.
func RemoveOwner(ctx context.Context, local storage.Store) error {
	meta, err := local.Table(ctx, storage.TableMeta)
	if errors.Is(err, storage.ErrNoTable) {
		return nil
	}
	if err != nil {
		return err
	}
	owned, err := storage.HasRow(ctx, meta, storage.RowSet{Keys: [][]byte{[]byte(ownerRow)}}, storage.Filter{KeysOnly: true})
	if err != nil || !owned {
		return err
	}
	return meta.DropRows(ctx, storage.RowRange{Start: []byte(ownerRow), End: []byte(ownerRow + "\x00")})
}

// ReadOwner returns the owner of the tables, the zero value if they have none.
func ReadOwner(ctx context.Context, meta storage.Table) (Owner, error) {
	var o Owner
	found, err := ownerCell().Read(ctx, meta, &o)
	if err == nil && found {
		err = o.check()
	}
	if err != nil {
		return Owner{}, err
	}
	return o, nil
}

// check refuses a row that names no owner.
func (o *Owner) check() error {
	switch {
	case o.Mode != "" && o.Mode != ModeDirect:
		return ownerCell().Corrupt(fmt.Errorf("this build does not know mode %q", o.Mode))
	case o.Mode == "" && o.ID == "":
		return ownerCell().Corrupt(errors.New("neither the id of a directory nor a mode"))
	case o.Since.IsZero():
		return ownerCell().Corrupt(errors.New("no time"))
	}
	return nil
}

// directoryID returns the random name of a directory. The first call creates the name.
func directoryID(path string) (string, error) {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return "", err
	}
	name := filepath.Join(path, ownerFile)
	src, err := os.ReadFile(name)
	if err == nil {
		id := strings.TrimSpace(string(src))
		if raw, err := hex.DecodeString(id); err != nil || len(raw) != ownerIDBytes {
			return "", fmt.Errorf("%s does not hold %d bytes in hexadecimal: restore it, or delete it and use --bigtable.take-over",
				name, ownerIDBytes)
		}
		return id, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	raw := make([]byte, ownerIDBytes)
	if _, err := rand.Read(raw); err != nil {
		return "", err
	}
	id := hex.EncodeToString(raw)
	return id, datadir.WriteFile(name, []byte(id+"\n"))
}

// Share records that servers in mode direct share the tables. It fails if a single server owns them.
func Share(ctx context.Context, store storage.Store, takeOver bool, now time.Time) error {
	meta, err := store.EnsureTable(ctx, storage.MetaSchema())
	if err != nil {
		return err
	}
	owner, err := own(ctx, meta, Owner{Mode: ModeDirect, Since: now.UTC()}, takeOver)
	if err != nil {
		return err
	}
	return owner.checkShared()
}

// checkShared returns an error if a single server owns the tables.
func (o *Owner) checkShared() error {
	switch {
	case o.Mode == ModeDirect:
		return nil
	case o.ID == "":
		return fmt.Errorf("%w: %s, which names the owner of the tables, is missing", storage.ErrUnavailable, ownerCell())
	}
	return o.taken()
}
