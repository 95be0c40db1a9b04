package tools

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
	"halite/cmd/tsdb/internal/program"
	"halite/cmd/tsdb/internal/tables"
	"halite/ingest/wal"
	"halite/storage"
)

// inspectCommands are the commands that print the data of a server.
type inspectCommands struct {
	snapshot                snapshotFlags
	keys, rows, wal, tables *kingpin.CmdClause
	source                  tables.OfflineFlags
	table, prefix           string
	rowsMax                 int
	verbose                 bool
}

// AddInspect declares `tsdb inspect` and its sub-commands.
func AddInspect(app *kingpin.Application) program.Commands {
	cmd := app.Command("inspect", "Print stored data as text, of a stopped server, or with --url of a running one.")
	c := &inspectCommands{}
	c.keys = cmd.Command("keys", "Print the row keys of a table.")
	c.rows = cmd.Command("rows", "Print the rows of a table with their cells. --verbose also prints the samples of chunks "+
		"and other values.")
	c.wal = cmd.Command("wal", "Print the segments and records of the log.")
	c.tables = cmd.Command("tables", "Print the tables with their families and tablets.")
	for _, sub := range []*kingpin.CmdClause{c.keys, c.rows, c.tables} {
		c.source.AddFlags(sub)
	}
	c.wal.Flag("storage.path", "Directory of all data.").Default("./data").StringVar(&c.source.StoragePath)
	for _, sub := range []*kingpin.CmdClause{c.keys, c.rows, c.tables, c.wal} {
		c.snapshot.addFlags(sub)
	}
	for _, sub := range []*kingpin.CmdClause{c.keys, c.rows} {
		sub.Flag("table", "Table to read.").Default(storage.TableData).StringVar(&c.table)
		sub.Flag("prefix", "Only row keys with this prefix.").StringVar(&c.prefix)
		sub.Flag("limit", "Maximum number of rows; 0 means all.").Default("100").IntVar(&c.rowsMax)
	}
	for _, sub := range []*kingpin.CmdClause{c.rows, c.wal} {
		sub.Flag("verbose", "Print every sample, value or record.").Short('v').BoolVar(&c.verbose)
	}
	return program.Commands{
		c.wal.FullCommand():    c.printLog,
		c.tables.FullCommand(): c.storePrinter(printTables),
		c.keys.FullCommand():   c.storePrinter(c.printKeys),
		c.rows.FullCommand():   c.storePrinter(c.printRows),
	}
}

func (c *inspectCommands) printLog(ctx context.Context, w io.Writer) error {
	return c.snapshot.read(ctx, c.source.StoragePath, false, func(path string) error {
		if _, err := os.Stat(datadir.WALDir(path)); err != nil {
			return fmt.Errorf("%s holds no log of this server: %w", path, err)
		}
		return wal.Inspect(vfs.Default, datadir.WALDir(path), w, c.verbose)
	})
}

// storePrinter returns a command that opens the store, calls print and closes the store.
func (c *inspectCommands) storePrinter(print func(context.Context, storage.Store, io.Writer) error) program.Command {
	return func(ctx context.Context, w io.Writer) error {
		return c.snapshot.readTables(ctx, c.source, func(source tables.OfflineFlags) error {
			store, err := source.Open(ctx)
			if err != nil {
				return err
			}
			return errors.Join(print(ctx, store, w), store.Close())
		})
	}
}

func printTables(ctx context.Context, store storage.Store, w io.Writer) error {
	schemas, err := store.Tables(ctx)
	if err != nil {
		return err
	}
	if len(schemas) == 0 {
		fmt.Fprintln(w, "There are no tables yet: a server creates them when it starts.")
	}
	for _, schema := range schemas {
		fmt.Fprintf(w, "table %s\n", schema.Name)
		for _, f := range schema.Families {
			fmt.Fprintf(w, "  family %s kind %d max-age %s max-versions %d\n", f.Name, f.Kind, f.GC.MaxAge, f.GC.MaxVersions)
		}
		table, err := store.Table(ctx, schema.Name)
		if err != nil {
			return err
		}
		tablets, err := table.Tablets(ctx)
		if err != nil {
			return err
		}
		for _, t := range tablets {
			fmt.Fprintf(w, "  tablet [%q, %q) %d bytes\n", t.Range.Start, t.Range.End, t.SizeBytes)
		}
	}
	return nil
}

func (c *inspectCommands) printKeys(ctx context.Context, store storage.Store, w io.Writer) error {
	return c.readRows(ctx, store, storage.Filter{KeysOnly: true}, func(row storage.Row) {
		fmt.Fprintln(w, printable(row.Key))
	})
}

func (c *inspectCommands) printRows(ctx context.Context, store storage.Store, w io.Writer) error {
	return c.readRows(ctx, store, storage.Filter{}, func(row storage.Row) {
		fmt.Fprintln(w, printable(row.Key))
		for _, cell := range row.Cells {
			c.printCell(w, row.Key, cell)
		}
	})
}

// readRows calls visit for each row that the flags select.
func (c *inspectCommands) readRows(
	ctx context.Context, store storage.Store, filter storage.Filter, visit func(storage.Row),
) error {
	table, err := store.Table(ctx, c.table)
	if err != nil {
		return err
	}
	set := storage.RowSet{Ranges: []storage.RowRange{prefixRange(c.prefix)}}
	it := table.ReadRows(ctx, set, storage.ReadOptions{RowsMax: c.rowsMax, Filter: filter})
	for it.Next() {
		visit(it.Row())
	}
	return errors.Join(it.Err(), it.Close())
}

func (c *inspectCommands) printCell(w io.Writer, key []byte, cell storage.Cell) {
	at := time.UnixMilli(cell.TsMs).UTC().Format(time.RFC3339)
	if c.table != storage.TableData {
		fmt.Fprintf(w, "  %s:%q @ %s  %d bytes\n", cell.Family, cell.Qualifier, at, len(cell.Value))
		if c.verbose && len(cell.Value) > 0 {
			fmt.Fprintf(w, "    %s\n", printable(cell.Value))
		}
		return
	}
	text, err := describeSamples(key, cell, c.verbose)
	if err != nil {
		text = "unreadable: " + err.Error()
	}
	fmt.Fprintf(w, "  %s @ %s  %d bytes  %s\n", cell.Family, at, len(cell.Value), text)
}

func clock(tsMs int64) string { return time.UnixMilli(tsMs).UTC().Format("2006-01-02T15:04:05.000Z") }

// prefixRange returns the range of all keys that begin with prefix.
func prefixRange(prefix string) storage.RowRange {
	end := []byte(prefix)
	for len(end) > 0 && end[len(end)-1] == 0xff {
		end = end[:len(end)-1]
	}
	if len(end) > 0 {
		end[len(end)-1]++
	}
	return storage.RowRange{Start: []byte(prefix), End: end}
}

// printable returns a key or a value as it is if it is text, and quoted otherwise.
func printable(text []byte) string {
	for _, b := range text {
		if b < ' ' || b == 0x7f {
			return fmt.Sprintf("%q", text)
		}
	}
	return string(text)
}
