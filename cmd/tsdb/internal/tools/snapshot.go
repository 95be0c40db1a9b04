package tools

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"github.com/alecthomas/kingpin/v2"

	"halite/api"
	"halite/cmd/tsdb/internal/backup"
	"halite/cmd/tsdb/internal/client"
	"halite/cmd/tsdb/internal/datadir"
	"halite/cmd/tsdb/internal/tables"
	"halite/storage"
)

// snapshotFlags let a command read the data of a running server from a snapshot, which the command removes.
type snapshotFlags struct {
	server  client.Server
	pathSet bool // --storage.path is on the command line
}

// addFlags declares --url. The command has --storage.path already.
func (f *snapshotFlags) addFlags(cmd *kingpin.CmdClause) {
	f.server.AddFlags(cmd, "Read a snapshot of this running server instead of --storage.path, on its machine and as its user. The "+
		"server runs with --web.enable-admin-api.", "")
	cmd.GetFlag("storage.path").IsSetByUser(&f.pathSet)
}

// read calls read with the directory of a snapshot if --url is set, and with path otherwise. The snapshot has to hold tables if
// needsTables is true.
func (f *snapshotFlags) read(ctx context.Context, path string, needsTables bool, read func(path string) error) (err error) {
	if f.server.URL == "" {
		err := read(path)
		if errors.Is(err, storage.ErrLocked) {
			err = fmt.Errorf("%w (or use --url for a running server)", err)
		}
		return err
	}
	if f.pathSet {
		return errors.New("--url and --storage.path contradict each other: a server either runs or is stopped")
	}
	snapshot, err := takeSnapshot(ctx, &f.server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backup.RemoveSnapshot(snapshot.Path)) }()
	if needsTables && !snapshot.Tables {
		return fmt.Errorf("%s has its tables in Bigtable: use --storage.engine=%s instead of --url", &f.server, tables.EngineBigtable)
	}
	return read(snapshot.Path)
}

// readTables is read with the tables of source, or of the snapshot.
func (f *snapshotFlags) readTables(
	ctx context.Context, source tables.OfflineFlags, read func(source tables.OfflineFlags) error,
) error {
	if f.server.URL != "" && source.Engine != tables.EnginePebble {
		return fmt.Errorf("--url and --storage.engine=%s contradict each other: tables in Bigtable are read while servers run",
			source.Engine)
	}
	return f.read(ctx, source.StoragePath, true, func(path string) error {
		source.StoragePath = path
		return read(source)
	})
}

// takeSnapshot makes a server take a snapshot, which must be readable here. The caller removes it.
func takeSnapshot(ctx context.Context, server *client.Server) (taken api.Snapshot, err error) {
	err = server.CallAdmin(ctx, http.MethodPost, "/api/v1/admin/tsdb/snapshot", url.Values{"report": {"true"}}, &taken)
	if err != nil {
		return taken, err
	}
	if _, err := os.Stat(datadir.WALDir(taken.Path)); err != nil {
		return taken, fmt.Errorf("the server's snapshot %s cannot be read here: run this command on the server's machine "+
			"and as its user, and remove the snapshot: %w", taken.Path, err)
	}
	return taken, nil
}
