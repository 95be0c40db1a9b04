package recovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/compaction"
	"halite/storage/index/journal"
	"halite/storage/index/lookup"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/rowscan"
	"halite/storage/index/segment"
)

// Options configure a Recovery. All fields are required.
type Options struct {
	// Active, Open, Journal, Compactor, Lookup and Segments are the parts of the index.
	Active    *memory.Index
	Open      *memory.OpenDays
	Journal   *journal.Journal
	Compactor *compaction.Compactor
	Lookup    *lookup.Reader
	Segments  *segment.Store
	// Scanner reads series from the rows of data and rollups.
	Scanner *rowscan.Scanner
	// Lock serialises the changes of tables. Every method locks it, except methods that say otherwise.
	Lock   *sync.Mutex
	Now    func() time.Time
	Logger *slog.Logger
	// Added counts series that become active. Repairs counts repairs of damage.
	Added, Repairs prometheus.Counter
}

// Recovery changes an index in memory to match its tables.
type Recovery struct {
	opts      Options
	active    *memory.Index
	open      *memory.OpenDays
	journal   *journal.Journal
	compactor *compaction.Compactor
	lookup    *lookup.Reader
	store     *segment.Store
	scanner   *rowscan.Scanner
	refreshMu sync.Mutex // admits one Refresh; taken before opts.Lock
	// behind has the partitions whose current generation could not be read completely. refreshMu guards it.
	behind map[presence.Partition]struct{}
	// damaged has the days with records that Refresh could not read and has not repaired yet. refreshMu guards it.
	damaged map[int64]struct{}
}

// New returns a Recovery of an index.
func New(o Options) *Recovery {
	return &Recovery{
		opts: o, active: o.Active, open: o.Open, journal: o.Journal, compactor: o.Compactor, lookup: o.Lookup,
		store: o.Segments, scanner: o.Scanner, behind: map[presence.Partition]struct{}{}, damaged: map[int64]struct{}{},
	}
}

// Restore finds the days and months with segments and reads the journals. It repairs damaged journals.
func (r *Recovery) Restore(ctx context.Context) error {
	damaged, err := r.RestoreReadOnly(ctx)
	if err != nil {
		return err
	}
	r.opts.Lock.Lock()
	defer r.opts.Lock.Unlock()
	return r.repairJournals(ctx, damaged)
}

// RestoreDays restores days that the index has dropped because of their age. The caller holds the lock.
func (r *Recovery) RestoreDays(ctx context.Context, first, last int64) error {
	damaged, err := r.restoreDays(ctx, first, last)
	if err != nil {
		return err
	}
	return r.repairJournals(ctx, damaged)
}

// repairJournals repairs the journals of days. The caller holds the lock.
func (r *Recovery) repairJournals(ctx context.Context, days []int64) error {
	for _, day := range days {
		err := r.repairJournal(ctx, day)
		if errors.Is(err, storage.ErrCorrupt) {
			err = r.restoreFromRows(ctx, day, err)
		}
		if err != nil {
			return fmt.Errorf("repair the journal of day %d: %w", day, err)
		}
	}
	return nil
}

// RestoreReadOnly is Restore without writes. It returns the days with damaged journals.
func (r *Recovery) RestoreReadOnly(ctx context.Context) (damaged []int64, err error) {
	r.opts.Lock.Lock()
	defer r.opts.Lock.Unlock()
	damaged, err = r.readAll(ctx)
	if !errors.Is(err, storage.ErrCorrupt) {
		return damaged, err
	}
	r.opts.Logger.Error("a block of the index is damaged; its days are restored one by one", "err", err)
	r.open.Reset()
	r.compactor.Reset()
	r.journal.Reset()
	return r.restoreDays(ctx, presence.DayOf(keyschema.HourOf(r.opts.Lookup.OldestMs())),
		presence.DayOf(keyschema.HourMax))
}

// readAll finds all days and months and reads all journals. It returns the days with damaged journals.
func (r *Recovery) readAll(ctx context.Context) (damaged []int64, err error) {
	filter := storage.Filter{VersionsMax: 1}
	if err := r.compactor.FindPartitions(ctx, filter); err != nil {
		return nil, err
	}
	r.compactor.Expire()
	return r.readJournals(ctx, filter)
}

// readJournals reads the journals that the filter passes, with one scan. It returns the days with damaged journals.
func (r *Recovery) readJournals(ctx context.Context, filter storage.Filter) (damaged []int64, err error) {
	found, err := r.journal.Read(ctx, segment.PrefixRows(segment.JournalPrefix), filter)
	for _, p := range found.Obsolete {
		r.compactor.MarkUnclean(p)
	}
	return found.Damaged, err
}

// restoreDays restores the days from first to last despite damaged blocks of the table. If it cannot read the range, it divides
// the range into parts. It restores a single unreadable day from the rows.
func (r *Recovery) restoreDays(ctx context.Context, first, last int64) (damaged []int64, err error) {
	filter := storage.Filter{
		FromMs: keyschema.HourStartMs(presence.FirstHour(first)), ToMs: keyschema.HourStartMs(presence.FirstHour(last + 1)),
		VersionsMax: 1,
	}
	err = r.probe(ctx, filter) // a scan that fails midway would leave partial results
	switch {
	case errors.Is(err, storage.ErrCorrupt) && first == last:
		return nil, r.restoreFromRows(ctx, first, err)
	case errors.Is(err, storage.ErrCorrupt):
		middle := first + (last-first)/2
		damaged, err = r.restoreDays(ctx, first, middle)
		if err != nil {
			return nil, err
		}
		more, err := r.restoreDays(ctx, middle+1, last)
		return append(damaged, more...), err
	case err != nil:
		return nil, err
	}
	if err := r.compactor.FindPartitions(ctx, filter); err != nil {
		return nil, err
	}
	return r.readJournals(ctx, filter)
}

// probe returns an error if a row that restoreDays needs cannot be read.
func (r *Recovery) probe(ctx context.Context, filter storage.Filter) error {
	rows := segment.ManifestRows()
	rows.Ranges = append(rows.Ranges, segment.PrefixRows(segment.JournalPrefix).Ranges...)
	it := r.store.SeriesTable.ReadRows(ctx, rows, storage.ReadOptions{Filter: filter})
	defer func() { _ = it.Close() }()
	for it.Next() {
	}
	return it.Err()
}

// restoreFromRows restores a day with an unreadable index from the rows. cause is the error of the read. The day stays open
// until the damaged file has been removed. If the rows are unreadable too, look-ups of the day fail.
func (r *Recovery) restoreFromRows(ctx context.Context, day int64, cause error) error {
	for _, p := range []presence.Partition{presence.DayPartition(day), presence.MonthOf(day)} {
		if p.LastDay() == day { // the manifests of day and month are neighbours
			r.compactor.DropPartition(p)
		}
	}
	end := r.journal.FarSeq()
	d := r.open.Get(day)
	if d != nil {
		d.Journal = memory.JournalState{Known: true, First: end, Seq: end}
		d.MarkUnwritten()
	}
	scan, err := r.scanner.All(ctx, day, rowscan.SkipMissing)
	if errors.Is(err, storage.ErrCorrupt) {
		r.opts.Logger.Error("index and rows of a day are damaged; look-ups of the day fail", "day", day, "err", cause)
		r.store.Closed.Ensure(presence.DayPartition(day)).Fail(cause)
		return nil
	}
	if err != nil || d == nil && scan.Series.SeriesCount() == 0 {
		return err
	}
	r.opts.Logger.Error("index of a day is damaged; it is rebuilt from the keys of the rows", "day", day, "err", cause)
	r.opts.Repairs.Inc()
	r.open.Day(day).Journal = memory.JournalState{Known: true, First: end, Seq: end}
	return r.activate(scan)
}

// repairJournal joins the data rows with the readable part of a day's journal. It writes a journal that replaces the damaged
// one. After an interruption, the damaged record still exists, and the next Restore repairs the journal again. The caller holds
// the lock.
func (r *Recovery) repairJournal(ctx context.Context, day int64) error {
	d := r.open.Day(day)
	scan, err := r.scanner.Data(ctx, day, rowscan.SkipMissing)
	if err != nil {
		return err
	}
	if err := r.activate(scan); err != nil {
		return err
	}
	d.MarkUnwritten()
	end := d.Journal.Seq
	d.Journal = memory.JournalState{Known: true, First: end, Seq: end}
	if err := r.journal.PersistDay(ctx, d); err != nil {
		return err
	}
	if err := r.scanner.Store.Sync(ctx); err != nil {
		return err
	}
	if err := r.journal.Delete(ctx, d.Records); err != nil {
		return err
	}
	d.Records = nil
	return r.journal.DeleteBelow(ctx, day, end)
}

// activate adds the series of a scan to the active index and marks their hours as active.
func (r *Recovery) activate(scan rowscan.Result) error {
	b := labels.NewScratchBuilder(16)
	hourNow := keyschema.HourOf(max(0, r.opts.Now().UnixMilli()))
	var v memory.View
	for _, t := range scan.Series.Tables() {
		v.Load(t)
		for row := range v.Rows {
			ref, created, err := r.active.Add(v.Labels(row, &b), hourNow)
			if err != nil {
				return err
			}
			if created {
				r.opts.Added.Inc()
			}
			for _, span := range presence.AppendSpans(nil, scan.Day.Day, scan.Day.Hours(v.Ref(row))) {
				for hour := span.First; hour <= span.Last; hour++ {
					if r.open.MarkActive(ref, hour) {
						r.active.RaiseLastHour(ref, hour)
					}
				}
			}
		}
	}
	return nil
}
