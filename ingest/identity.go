package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/ingest/wal"
	"halite/storage"
	"halite/storage/jsoncell"
)

// The tables name the log that protects them, in one cell of table meta. Open compares the cell with the files of the log,
// and refuses tables and a log that do not belong together: acknowledged samples would be missing, and nobody would know.
//
// Why a crash at any instant leaves a pair that agrees:
//   - Start: the log counts its starts and begins a segment, then the cell takes both over, then writes are accepted.
//   - Checkpoint: the cell names the segment before which the tables hold everything, then the tables are synced, then the
//     log is cut there. The tables may therefore know of a later cut than the log, never of an earlier one.
const (
	identityRow       = "log"
	identityQualifier = "identity"
)

func identityCell() jsoncell.Cell {
	return jsoncell.Cell{Row: identityRow, Qualifier: identityQualifier, BytesMax: 4 << 10}
}

// identity is the content of the cell.
type identity struct {
	// Synced is the place before which the tables hold every sample.
	Synced wal.Place `json:"synced"`
	// Reached is a place that the log has certainly reached.
	Reached wal.Place `json:"reached"`
	// Starts is how often the log was opened.
	Starts uint32 `json:"starts"`
	// Clean: the server stopped after a flush, so nothing in the log is missing from the tables.
	Clean bool `json:"clean"`
	// At is the time of the last change, for people.
	At time.Time `json:"at"`
}

func (id *identity) String() string {
	return fmt.Sprintf("they belong to log %016x, hold all samples before its segment %d and know its segment %d and start %d "+
		"(written %s, server stopped cleanly: %t)", id.Synced.Log, id.Synced.Segment, id.Reached.Segment, id.Starts,
		id.At.UTC().Format(time.RFC3339), id.Clean)
}

// Losses of an IdentityError.
const (
	// LostLog: the log is missing, or older than the tables.
	LostLog = "log"
	// LostTables: tables are missing, or older than the log.
	LostTables = "tables"
	// LostEither: log and tables belong to different stores.
	LostEither = "log or tables"
	// LostIdentity: the tables do not name their log at all.
	LostIdentity = "identity"
)

// IdentityError says that a log and tables do not belong together.
type IdentityError struct {
	// Lost is one of the constants above.
	Lost string
	// Reason says what disagrees, Missing which samples may be missing.
	Reason, Missing string
	// Tables and Log describe the two sides.
	Tables, Log string
}

func (e *IdentityError) Error() string {
	return fmt.Sprintf("the log and the tables do not belong together: %s. Tables: %s. Log: %s. Missing: %s", e.Reason, e.Tables,
		e.Log, e.Missing)
}

// Verdict says how a store whose log and tables were compared is opened.
type Verdict int

// Verdicts.
const (
	// Agreed: log and tables belong together, or both are new.
	Agreed Verdict = iota
	// KeepBoth: a loss was accepted; what is left of log and tables is used.
	KeepBoth
	// KeepOlderTables: likewise, and the tables are older than the log.
	KeepOlderTables
	// SetLogAside: a loss was accepted; the tables go on with a new log.
	SetLogAside
	// SetTablesAside: a loss was accepted; the log goes on with new tables.
	SetTablesAside
)

// IdentityOptions are what CheckIdentity compares, and the losses that it accepts.
type IdentityOptions struct {
	// Store holds the tables; nil if there are none.
	Store storage.Store
	// FS and Dir hold the log.
	FS  vfs.FS
	Dir string
	// AcceptWALLoss and AcceptTableLoss are those of Options.
	AcceptWALLoss, AcceptTableLoss bool
	// TakeOver is that of Options.
	TakeOver bool
	// Logger takes the losses that are accepted; nil discards them.
	Logger *slog.Logger
}

// CheckIdentity compares tables and log. It changes nothing. The error is an *IdentityError if they do not belong together
// and the loss is not accepted, and a *wal.DamageError if files of the log are missing.
func CheckIdentity(ctx context.Context, o IdentityOptions) (Verdict, error) {
	tables, err := readIdentity(ctx, o.Store)
	if err != nil {
		return Agreed, err
	}
	log, err := wal.Look(o.FS, o.Dir)
	if err != nil {
		return Agreed, fmt.Errorf("look at the write-ahead log in %s: %w", o.Dir, err)
	}
	rows := false
	if tables == nil && o.Store != nil {
		if rows, err = holdsSamples(ctx, o.Store); err != nil {
			return Agreed, err
		}
	}
	verdict, fault := compare(tables, rows, &log)
	if log.Damage != nil && !o.AcceptWALLoss && (fault == nil || fault.Lost == LostLog) {
		return Agreed, log.Damage
	}
	if fault == nil {
		return Agreed, nil
	}
	fault.describe(tables, rows, &log, o.Dir)
	accepted := false
	switch fault.Lost {
	case LostLog:
		accepted = o.AcceptWALLoss || o.TakeOver
	case LostTables:
		accepted = o.AcceptTableLoss
	case LostIdentity:
		accepted = o.TakeOver || o.AcceptTableLoss
	case LostEither:
		accepted = true
		switch {
		case o.TakeOver:
			verdict = KeepBoth
		case o.AcceptWALLoss:
			verdict = SetLogAside
		case o.AcceptTableLoss:
			verdict = SetTablesAside
		default:
			accepted = false
		}
	}
	if !accepted {
		return Agreed, fault
	}
	if o.Logger != nil {
		o.Logger.Error("log and tables do not belong together and the loss was accepted", "lost", fault.Lost, "why", fault.Reason,
			"missing", fault.Missing, "tables", fault.Tables, "log", fault.Log)
	}
	return verdict, nil
}

// compare says what disagrees, and how the store is opened if that loss is accepted. tables is nil if they hold no identity;
// rows tells whether they hold samples then.
func compare(tables *identity, rows bool, log *wal.Extent) (Verdict, *IdentityError) {
	switch {
	case tables == nil && rows:
		return KeepBoth, &IdentityError{Lost: LostIdentity, Missing: "not known",
			Reason: "the tables hold samples but no identity, as those of older builds do"}
	case tables == nil && log.Empty:
		return Agreed, nil
	case tables == nil && log.Cut == 0:
		return KeepBoth, &IdentityError{Lost: LostTables, Reason: "the tables are missing or empty, but the log is not",
			Missing: "no samples, because the log was never cut"}
	case tables == nil:
		return KeepBoth, &IdentityError{Lost: LostTables, Reason: "the tables are missing or empty, but the log is not",
			Missing: fmt.Sprintf("all samples of the segments before %d", log.Cut)}
	case gone(tables, log) && tables.Clean:
		return Agreed, nil // the tables hold every sample
	case gone(tables, log):
		return SetLogAside, &IdentityError{Lost: LostLog, Reason: "the log is missing or empty, but the tables are not",
			Missing: tables.behind(tables.Synced.Segment)}
	case log.Log != tables.Synced.Log:
		return SetLogAside, &IdentityError{Lost: LostEither, Reason: "the tables belong to another log",
			Missing: "samples of either side that only its own counterpart holds"}
	case log.Cut > tables.Synced.Segment:
		return KeepOlderTables, &IdentityError{Lost: LostTables, Reason: "the tables are older than the log",
			Missing: fmt.Sprintf("the samples of segments %d to %d, which are neither in the tables nor in the log any more",
				tables.Synced.Segment, log.Cut-1)}
	case log.Last < tables.Reached.Segment || log.Starts < tables.Starts:
		fault := &IdentityError{Lost: LostLog, Reason: "the log is older than the tables", Missing: tables.behind(log.Last)}
		if log.Last < tables.Synced.Segment {
			return SetLogAside, fault // the tables hold all of it
		}
		return KeepBoth, fault
	case log.Contradicts(tables.Synced) || log.Contradicts(tables.Reached):
		return SetLogAside, &IdentityError{Lost: LostEither, Reason: "the log and the tables are from copies of one store that were " +
			"written to separately", Missing: "samples of either side that only its own counterpart holds"}
	}
	return Agreed, nil
}

// gone reports whether there is no log, or a new one, where the tables had another.
func gone(tables *identity, log *wal.Extent) bool {
	return log.Log == 0 || log.Empty && log.Log != tables.Synced.Log
}

// behind names the samples that the tables may lack if the log ends in or before the given segment.
func (id *identity) behind(segment uint64) string {
	return fmt.Sprintf("the samples logged from segment %d on, acknowledged after about %s, as far as they are in no table",
		segment, id.At.UTC().Format(time.RFC3339))
}

// describe fills in the two sides.
func (e *IdentityError) describe(tables *identity, rows bool, log *wal.Extent, dir string) {
	switch {
	case tables != nil:
		e.Tables = tables.String()
	case rows:
		e.Tables = "they name no log"
	default:
		e.Tables = "there are none, or they are new"
	}
	switch {
	case log.Log == 0:
		e.Log = fmt.Sprintf("there is none in %s", dir)
	case log.Empty:
		e.Log = fmt.Sprintf("%s holds the new log %016x", dir, log.Log)
	default:
		e.Log = fmt.Sprintf("%s holds log %016x, segments %d to %d, start %d; only the tables hold the samples before segment %d", dir,
			log.Log, log.First, log.Last, log.Starts, max(log.Cut, 1))
	}
}

// readIdentity returns the cell, nil if there is none.
func readIdentity(ctx context.Context, store storage.Store) (*identity, error) {
	if store == nil {
		return nil, nil
	}
	meta, err := store.Table(ctx, storage.TableMeta)
	if errors.Is(err, storage.ErrNoTable) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var id identity
	found, err := identityCell().Read(ctx, meta, &id)
	if err != nil || !found {
		return nil, err
	}
	return &id, nil
}

func holdsSamples(ctx context.Context, store storage.Store) (bool, error) {
	data, err := store.Table(ctx, storage.TableData)
	if errors.Is(err, storage.ErrNoTable) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return storage.HasRow(ctx, data, storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.Filter{KeysOnly: true})
}

// agree compares log and tables before the log is read, and sets the log aside if that loss is accepted. The caller of Open
// has logged an accepted loss when it compared them to open the tables.
func (i *Ingester) agree(ctx context.Context) error {
	verdict, err := CheckIdentity(ctx, IdentityOptions{
		Store: i.opts.Store, FS: i.opts.FS, Dir: i.opts.Dir, AcceptWALLoss: i.opts.AcceptWALLoss,
		AcceptTableLoss: i.opts.AcceptTableLoss, TakeOver: i.opts.TakeOver,
	})
	if err != nil {
		return err
	}
	if verdict == SetTablesAside {
		return errors.New("the tables belong to another log and cannot be set aside here: open the log with other tables")
	}
	if verdict == SetLogAside {
		if err := i.log.SetAside(); err != nil {
			return fmt.Errorf("set the write-ahead log aside: %w", err)
		}
	}
	if verdict != Agreed {
		return nil
	}
	if id, err := readIdentity(ctx, i.opts.Store); err != nil || id == nil {
		return err
	} else {
		i.identity = *id
	}
	return nil
}

// bind makes the tables name the log, whose newest segment was begun by this start. From then on writes may be accepted.
func (i *Ingester) bind(ctx context.Context) error {
	var err error
	if i.identity.Reached, err = i.log.Place(i.log.Stats().Segment); err != nil {
		return fmt.Errorf("name the log's newest segment: %w", err)
	}
	if i.identity.Synced.Log != i.identity.Reached.Log {
		if i.identity.Synced, err = i.log.Place(i.log.First()); err != nil {
			return fmt.Errorf("name the log's first segment: %w", err)
		}
	}
	i.identity.Starts, i.identity.Clean = i.log.Starts(), false
	if err := i.writeIdentity(ctx); err != nil {
		return err
	}
	return i.opts.Store.Sync(ctx)
}

// foretell notes that the tables hold everything before the segment point once they are synced, and that the log has
// reached the segment cut. The caller holds the flusher's lock.
func (i *Ingester) foretell(ctx context.Context, point, cut uint64) error {
	var err error
	if i.identity.Reached, err = i.log.Place(cut); err != nil {
		return err
	}
	if point >= i.identity.Synced.Segment {
		if i.identity.Synced, err = i.log.Place(point); err != nil {
			return err
		}
	}
	i.identity.Clean = i.drained && point == cut
	return i.writeIdentity(ctx)
}

func (i *Ingester) writeIdentity(ctx context.Context) error {
	i.identity.At = i.opts.Now().UTC()
	if err := identityCell().Write(ctx, i.meta, i.identity); err != nil {
		return fmt.Errorf("note the log in the tables: %w", err)
	}
	return nil
}
