package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kingpin/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"

	"halite/cmd/tsdb/internal/datadir"
	"halite/cmd/tsdb/internal/program"
	"halite/cmd/tsdb/internal/tables"
	"halite/ingest/identity"
	"halite/ingest/replay"
	"halite/keyschema"

	rollupstore "halite/rollup/store"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/pebble"
	"halite/storage/pebble/fault"
	"halite/storage/tombstone"
)

// verifyConfig holds the flags of `tsdb verify`.
type verifyConfig struct {
	snapshot     snapshotFlags
	path, repair string
	output       program.Output
}

// repairIndex is the value of --repair that rebuilds the series index.
const repairIndex = "index"

// AddVerify declares `tsdb verify`.
func AddVerify(app *kingpin.Application) program.Commands {
	c := &verifyConfig{}
	cmd := app.Command("verify", "Read all files of a stopped server, or with --url of a running one, and list the damage and "+
		"its effects. Without --repair it changes nothing. The exit status is 1 if it finds damage.")
	cmd.Flag("storage.path", "Directory of the server, which must have stopped.").Default("./data").StringVar(&c.path)
	c.snapshot.addFlags(cmd)
	c.output.AddFlag(cmd)
	cmd.Flag("repair", "Repair before the report. The value index moves damaged files of the series index to "+
		"tables/lost and rebuilds the index from the row keys.").EnumVar(&c.repair, repairIndex)
	return program.Commands{cmd.FullCommand(): c.run}
}

// Kinds of findings.
const (
	findingFile  = "table file"
	findingIndex = "series index"
	findingMeta  = "table meta"
	findingPair  = "log and tables"
	findingLog   = "log"
)

// finding is one damage in a report.
type finding struct {
	Kind     string `json:"kind"`
	File     string `json:"file,omitempty"`
	Table    string `json:"table,omitempty"`
	FirstDay string `json:"first_day,omitempty"`
	LastDay  string `json:"last_day,omitempty"`
	FirstRow string `json:"first_row,omitempty"`
	LastRow  string `json:"last_row,omitempty"`
	Reason   string `json:"reason"`
	Effect   string `json:"effect"`
}

// verifyReport is what `tsdb verify` prints.
type verifyReport struct {
	Files     int       `json:"files"`
	SizeBytes int64     `json:"size_bytes"`
	Cells     int       `json:"cells"`
	Days      int       `json:"days"`
	Damage    []finding `json:"damage"`
}

func (c *verifyConfig) run(ctx context.Context, w io.Writer) error {
	if c.repair != "" && c.snapshot.server.URL != "" {
		return errors.New("--repair and --url contradict each other: a repair needs a stopped server")
	}
	return c.snapshot.read(ctx, c.path, true, func(path string) error { return c.verify(ctx, path, w) })
}

// verify reads the files of a directory, which no server uses.
func (c *verifyConfig) verify(ctx context.Context, path string, w io.Writer) (err error) {
	if _, err := os.Stat(datadir.TablesDir(path)); err != nil {
		return fmt.Errorf("%s holds no tables of this server: %w", path, err)
	}
	lock, err := datadir.Lock(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if c.repair == repairIndex {
		if err := c.rebuildIndex(ctx); err != nil {
			return fmt.Errorf("repair the series index: %w", err)
		}
	}
	v := verification{report: verifyReport{Damage: []finding{}}, path: path, days: map[int64]bool{}, rollupDays: map[int64]bool{}}
	if err := v.run(ctx); err != nil {
		return err
	}
	if err := c.output.Print(w, &v.report, v.report.printText); err != nil {
		return err
	}
	if n := len(v.report.Damage); n > 0 {
		return fmt.Errorf("%s is damaged; damaged places: %d", path, n)
	}
	return nil
}

func (r *verifyReport) printText(w io.Writer) error {
	for _, f := range r.Damage {
		fmt.Fprintf(w, "%s %s: %s\n", f.Kind, f.File, f.Reason)
		if f.Table != "" {
			fmt.Fprintf(w, "  table %s, days %s to %s, rows %q to %q\n", f.Table, f.FirstDay, f.LastDay, f.FirstRow, f.LastRow)
		}
		fmt.Fprintf(w, "  %s\n", f.Effect)
	}
	_, err := fmt.Fprintf(w, "read %d table files of %d bytes with %d cells, and %d days of the series index: %d damaged\n",
		r.Files, r.SizeBytes, r.Cells, r.Days, len(r.Damage))
	return err
}

// verification reads the directory of a server.
type verification struct {
	path   string
	report verifyReport
	// days have cells of samples, rollupDays have rollups.
	days, rollupDays map[int64]bool
}

func (v *verification) run(ctx context.Context) error {
	if err := v.files(ctx, v.options(true)); err != nil {
		return err
	}
	return v.inUse(ctx)
}

// options returns the options to open the tables. The report has the engine's errors, so they are not logged.
func (v *verification) options(readOnly bool) pebble.Options {
	return pebble.Options{
		Dir: datadir.TablesDir(v.path), DayChunks: tables.DayChunkCodec(), DayChunkInterval: -1, ReadOnly: readOnly,
	}
}

// files reads all table files.
func (v *verification) files(ctx context.Context, opts pebble.Options) error {
	files, err := pebble.Verify(ctx, opts, v.cell)
	if err != nil {
		return err
	}
	v.report.Files, v.report.SizeBytes = files.Files, files.SizeBytes
	for _, d := range files.Damages {
		v.report.Damage = append(v.report.Damage, fileFinding(d))
	}
	return nil
}

func fileFinding(d fault.Damage) finding {
	f := finding{Kind: findingFile, File: d.File, Table: d.Table, FirstRow: d.FirstRow, LastRow: d.LastRow, Reason: d.Reason,
		Effect: effectOf(d)}
	if d.Table != "" {
		f.FirstDay, f.LastDay = fault.DayText(d.FirstDay), fault.DayText(d.LastDay)
	}
	return f
}

// effectOf returns the effect of a damaged file, and the way to repair or accept it.
func effectOf(d fault.Damage) string {
	accept := "tsdb serve --" + tables.AcceptTableLossFlag + "=" + d.File
	switch d.Table {
	case storage.TableData:
		return "Queries of these rows fail. " + accept + " gives up their samples."
	case storage.TableSeries, storage.TableLabels:
		return "Look-ups of these days may fail. tsdb verify --repair index rebuilds them."
	case storage.TableRollup:
		return "Queries with long windows over these days fail. " + accept + " recomputes the rollups from samples."
	case storage.TableMeta:
		return "The server may not start. " + accept + " gives up schema rules, unfinished deletions and metadata of metrics."
	case "":
		return "The server may not start. You can accept the loss of files without rows, except the manifest."
	}
	return "The server uses a copy of these records. " + accept + " sets the file aside."
}

// cell checks a cell by the rules of its table.
func (v *verification) cell(table string, row storage.Row) error {
	v.report.Cells++
	cell := &row.Cells[0]
	day := cell.TsMs / keyschema.DayMs
	switch table {
	case storage.TableData:
		v.days[day] = true
		if _, err := describeSamples(row.Key, *cell, false); err != nil {
			return fmt.Errorf("%w: row %q: %w", storage.ErrCorrupt, row.Key, err)
		}
		return nil
	case storage.TableRollup:
		v.rollupDays[day] = true
		return rollupstore.CheckCell(row.Key, cell)
	}
	return index.CheckCell(table, row.Key, cell.Qualifier, cell.Value)
}

// inUse checks what the server reads at its start: the rows of table meta that it needs, the log, and the series index.
func (v *verification) inUse(ctx context.Context) error {
	store, err := pebble.Open(v.options(true))
	if err != nil {
		if errors.Is(err, storage.ErrCorrupt) {
			return v.log(nil) // the report has the files
		}
		return err
	}
	err = v.openTables(ctx, store)
	return errors.Join(err, store.Close())
}

func (v *verification) openTables(ctx context.Context, store storage.Store) error {
	server := tables.Identity{Engine: tables.EnginePebble, StoragePath: v.path}
	if _, err := server.Check(ctx, store, nil); errors.As(err, new(*identity.Error)) {
		v.report.Damage = append(v.report.Damage, finding{Kind: findingPair, Reason: err.Error(),
			Effect: "The server does not start. " + tables.AdviceFor(err)})
	}
	x, err := v.openIndex(ctx, store, func(opts index.Options) (*index.Index, error) {
		x, damaged, err := index.OpenReadOnly(ctx, opts)
		for _, day := range damaged {
			v.found(findingIndex, day, "the journal is damaged", "The next start rebuilds the day.")
		}
		return x, err
	})
	if errors.Is(err, storage.ErrCorrupt) {
		v.report.Damage = append(v.report.Damage, finding{Kind: findingMeta, Table: storage.TableMeta, Reason: err.Error(),
			Effect: "The server does not start."})
		err = nil
	}
	if err != nil {
		return err
	}
	if err := v.log(x); err != nil || x == nil {
		return err
	}
	for day := range v.days {
		v.report.Days++
		if err := v.indexDay(ctx, x, day); err != nil {
			return err
		}
	}
	return nil
}

// openIndex opens the series index with the function open. It hides deleted samples from the index. The index is nil if there are
// no tables.
func (v *verification) openIndex(
	ctx context.Context, store storage.Store, open func(index.Options) (*index.Index, error),
) (*index.Index, error) {
	meta, err := store.Table(ctx, storage.TableMeta)
	if errors.Is(err, storage.ErrNoTable) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	schema, _, err := tables.StoredSchema(ctx, meta)
	if err != nil {
		return nil, err
	}
	_, undeleted, err := tables.OpenTombstones(ctx, tombstone.Options{Store: store})
	if err != nil {
		return nil, err
	}
	return open(index.Options{Store: undeleted, Schema: schema})
}

// log reads the log. It adds series that are not in the tables yet to the index in memory.
func (v *verification) log(x *index.Index) error {
	dir := datadir.WALDir(v.path)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	losses, err := replay.ReadLog(vfs.Default, dir, func(ls labels.Labels) (func(int64), error) {
		if x == nil {
			return func(int64) {}, nil
		}
		ref, _, err := x.Add(ls)
		return func(hour int64) { x.MarkActive(ref, hour) }, err
	})
	for i := range losses {
		d := &losses[i].Damage
		v.report.Damage = append(v.report.Damage, finding{Kind: findingLog, File: d.File, Reason: d.Error(),
			Effect: "The server does not start. tsdb serve --storage.accept-wal-loss gives up these records."})
	}
	return err
}

// indexDay compares a day of the series index with the row keys.
func (v *verification) indexDay(ctx context.Context, x *index.Index, day int64) error {
	diff, err := x.Verify(ctx, day)
	const repair = "Look-ups of the day fail or miss series. tsdb verify --repair index rebuilds it."
	switch {
	case errors.Is(err, storage.ErrCorrupt):
		v.found(findingIndex, day, err.Error(), repair)
	case err != nil:
		return err
	case len(diff.Missing) > 0:
		v.found(findingIndex, day, fmt.Sprintf("%d series with rows are missing, such as %s", len(diff.Missing), diff.Missing[0]),
			repair)
	}
	return nil
}

func (v *verification) found(kind string, day int64, reason, effect string) {
	text := fault.DayText(int32(day))
	v.report.Damage = append(v.report.Damage, finding{Kind: kind, FirstDay: text, LastDay: text, Reason: text + ": " + reason,
		Effect: effect})
}
