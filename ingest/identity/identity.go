package identity

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

const (
	identityRow       = "log"
	identityQualifier = "identity"
)

func identityCell() jsoncell.Cell {
	return jsoncell.Cell{Row: identityRow, Qualifier: identityQualifier, BytesMax: 4 << 10}
}

// state is the content of the cell.
type state struct {
	// Synced is the position in the log before which the tables hold every sample.
	Synced wal.SegmentID `json:"synced"`
	// Reached is a position that the log has certainly reached.
	Reached wal.SegmentID `json:"reached"`
	// Starts counts how often the log was opened.
	Starts uint32 `json:"starts"`
	// Clean: the server stopped after a flush, so nothing in the log is missing from the tables.
	Clean bool `json:"clean"`
	// At is the time of the last change, for operators.
	At time.Time `json:"at"`
}

func (id *state) String() string {
	return fmt.Sprintf("they belong to log %016x, hold all samples before its segment %d and know its segment %d and start %d "+
		"(written %s, server stopped cleanly: %t)", id.Synced.Log, id.Synced.Segment, id.Reached.Segment, id.Starts,
		id.At.UTC().Format(time.RFC3339), id.Clean)
}

// Losses of an Error.
const (
	// LostLog: the log is missing, or is older than the tables.
	LostLog = "log"
	// LostTables: tables are missing, or are older than the log.
	LostTables = "tables"
	// LostEither: log and tables belong to different stores.
	LostEither = "log or tables"
	// LostIdentity: the tables do not name their log at all.
	LostIdentity = "identity"
)

// Error reports that a log and tables do not belong together.
type Error struct {
	// Lost is one of the constants above.
	Lost string
	// Reason describes the disagreement. Missing describes the samples that may be missing.
	Reason, Missing string
	// Tables and Log describe the two sides.
	Tables, Log string
}

func (e *Error) Error() string {
	return fmt.Sprintf("the log and the tables do not belong together: %s. Tables: %s. Log: %s. Missing: %s", e.Reason, e.Tables,
		e.Log, e.Missing)
}

// Verdict says how to open a store after the comparison of log and tables.
type Verdict int

// Verdicts.
const (
	// Agreed: log and tables belong together, or both are new.
	Agreed Verdict = iota
	// KeepBoth: a loss was accepted. The server uses what remains of log and tables.
	KeepBoth
	// KeepOlderTables: like KeepBoth, and the tables are older than the log.
	KeepOlderTables
	// SetLogAside: a loss was accepted. The tables get a new log.
	SetLogAside
	// SetTablesAside: a loss was accepted. The log gets new tables.
	SetTablesAside
)

// Options has the log and tables that Check compares, and the accepted losses.
type Options struct {
	// Store holds the tables; nil if there are none.
	Store storage.Store
	// FS and Dir hold the log.
	FS  vfs.FS
	Dir string
	// AcceptWALLoss accepts the loss of the log. AcceptTableLoss accepts the loss of tables.
	AcceptWALLoss, AcceptTableLoss bool
	// TakeOver makes the tables belong to this log, whatever log they belonged to before.
	TakeOver bool
	// Logger logs accepted losses; nil discards them.
	Logger *slog.Logger
}

// Check compares tables and log. It changes nothing. If they do not belong together and the loss is not accepted, it returns
// an *Error. If files of the log are missing, it returns a *wal.DamageError.
func Check(ctx context.Context, o Options) (Verdict, error) {
	tables, err := read(ctx, o.Store)
	if err != nil {
		return Agreed, err
	}
	log, err := wal.ReadExtent(o.FS, o.Dir)
	if err != nil {
		return Agreed, fmt.Errorf("inspect the write-ahead log in %s: %w", o.Dir, err)
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
	verdict, accepted := o.accept(fault.Lost, verdict)
	if !accepted {
		return Agreed, fault
	}
	if o.Logger != nil {
		o.Logger.Error("log and tables do not belong together and the loss was accepted", "lost", fault.Lost, "why", fault.Reason,
			"missing", fault.Missing, "tables", fault.Tables, "log", fault.Log)
	}
	return verdict, nil
}

// accept reports whether the options accept a loss, and returns the verdict: the given one, unless either side may be lost.
func (o *Options) accept(lost string, verdict Verdict) (_ Verdict, accepted bool) {
	switch lost {
	case LostLog:
		return verdict, o.AcceptWALLoss || o.TakeOver
	case LostTables:
		return verdict, o.AcceptTableLoss
	case LostIdentity:
		return verdict, o.TakeOver || o.AcceptTableLoss
	case LostEither:
		return o.acceptEither()
	}
	return Agreed, false
}

// acceptEither is accept if either side may be lost. The accepted loss decides which one.
func (o *Options) acceptEither() (_ Verdict, accepted bool) {
	switch {
	case o.TakeOver:
		return KeepBoth, true
	case o.AcceptWALLoss:
		return SetLogAside, true
	case o.AcceptTableLoss:
		return SetTablesAside, true
	}
	return Agreed, false
}

// compare returns the disagreement, and the verdict if that loss is accepted. tables is nil if the tables have no identity;
// rows then reports whether they have samples.
func compare(tables *state, rows bool, log *wal.Extent) (Verdict, *Error) {
	switch {
	case tables == nil && rows:
		return KeepBoth, &Error{Lost: LostIdentity, Missing: "not known",
			Reason: "the tables hold samples but no identity"}
	case tables == nil && log.Empty:
		return Agreed, nil
	case tables == nil && log.FlushedBefore == 0:
		return KeepBoth, &Error{Lost: LostTables, Reason: "the tables are missing or empty, but the log is not",
			Missing: "no samples, because the log was never cut"}
	case tables == nil:
		return KeepBoth, &Error{Lost: LostTables, Reason: "the tables are missing or empty, but the log is not",
			Missing: fmt.Sprintf("all samples of the segments before %d", log.FlushedBefore)}
	case gone(tables, log) && tables.Clean:
		return Agreed, nil // the tables hold every sample
	case gone(tables, log):
		return SetLogAside, &Error{Lost: LostLog, Reason: "the log is missing or empty, but the tables are not",
			Missing: tables.behind(tables.Synced.Segment)}
	case log.Log != tables.Synced.Log:
		return SetLogAside, &Error{Lost: LostEither, Reason: "the tables belong to another log",
			Missing: "samples of either side that only its own counterpart holds"}
	case log.FlushedBefore > tables.Synced.Segment:
		return KeepOlderTables, &Error{Lost: LostTables, Reason: "the tables are older than the log",
			Missing: fmt.Sprintf("the samples of segments %d to %d, which are neither in the tables nor in the log any more",
				tables.Synced.Segment, log.FlushedBefore-1)}
	case log.Last < tables.Reached.Segment || log.Starts < tables.Starts:
		fault := &Error{Lost: LostLog, Reason: "the log is older than the tables", Missing: tables.behind(log.Last)}
		if log.Last < tables.Synced.Segment {
			return SetLogAside, fault // the tables hold all of the log
		}
		return KeepBoth, fault
	case log.Contradicts(tables.Synced) || log.Contradicts(tables.Reached):
		return SetLogAside, &Error{Lost: LostEither, Reason: "the log and the tables are from copies of one store that were " +
			"written to separately", Missing: "samples of either side that only its own counterpart holds"}
	}
	return Agreed, nil
}

// gone reports whether the log of the tables is missing: there is no log, or only a new one.
func gone(tables *state, log *wal.Extent) bool {
	return log.Log == 0 || log.Empty && log.Log != tables.Synced.Log
}

// behind describes the samples that the tables may lack if the log ends at or before a segment.
func (id *state) behind(segment uint64) string {
	return fmt.Sprintf("samples logged from segment %d on, acknowledged after about %s, that are in no table",
		segment, id.At.UTC().Format(time.RFC3339))
}

// describe sets the descriptions of both sides.
func (e *Error) describe(tables *state, rows bool, log *wal.Extent, dir string) {
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
			log.Log, log.First, log.Last, log.Starts, max(log.FlushedBefore, 1))
	}
}

// read returns the cell, nil if there is none.
func read(ctx context.Context, store storage.Store) (*state, error) {
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
	var id state
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
