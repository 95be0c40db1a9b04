package deletion

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/common/model"

	"halite/ingest/flush"
	"halite/ingest/head"
	"halite/ingest/wal"
	"halite/ingest/wal/record"
	"halite/keyschema"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/tombstone"
)

// Options configure a Deleter. All fields but States and Announce are required.
type Options struct {
	Index      *index.Index
	Schema     *keyschema.Schema
	Store      storage.Store
	Data       storage.Table // hides deleted samples
	Tombstones *tombstone.Set
	States     States // nil without rollups
	Head       *head.Head
	Log        *wal.Log
	Sequence   *flush.Sequence
	Flusher    *flush.Flusher

	// Announce calls change, which deletes samples, and notifies the users of the samples before and after it. No read of
	// the head and of tombstones begins or ends meanwhile. If Announce is nil, change is called directly.
	Announce func(fromMs, toMs int64, change func() error) error
	// Changed is called when samples with fromMs ≤ time ≤ toMs are deleted for all readers.
	Changed func(fromMs, toMs int64)
	Now     func() time.Time
	Logger  *slog.Logger
	Metrics Metrics
}

// Deleter deletes samples of tables that only this process writes.
//
// Locks, outermost first: cleanMu, the lock of the flusher, the locks of the index, the stripes of the head.
type Deleter struct {
	opts    Options
	cleanMu sync.Mutex // admits one cleaning at a time

	cleaning atomic.Pointer[Progress] // nil outside of Clean
}

// New returns a Deleter. It does nothing on its own: the caller runs Maintain.
func New(opts Options) *Deleter { return &Deleter{opts: opts} }

func (d *Deleter) scanner() Scanner {
	return Scanner{Index: d.opts.Index, Schema: d.opts.Schema, Data: d.opts.Data, States: d.opts.States}
}

// recordRefsMax is the number of series in one log record of a deletion.
const recordRefsMax = 1 << 20

// Delete deletes samples. When it returns, no reader sees them, even after power loss. Samples written later stay. It
// returns the number of matching series that may have had samples in the time range. Flushes wait meanwhile. After an error
// other than a bad request, some samples may be deleted. The caller may then repeat the deletion.
func (d *Deleter) Delete(ctx context.Context, r Request) (series int, err error) {
	if r, err = r.Clip(); err != nil || r.Empty() {
		return 0, err
	}
	d.opts.Flusher.Lock()
	defer d.opts.Flusher.Unlock()
	if err := d.opts.Tombstones.CheckCapacity(); err != nil {
		return 0, err
	}
	if err := d.opts.Log.Refusing(); err != nil {
		return 0, err // fail before deleting a sample that the log could not record
	}
	// The log must not have samples of removed series. A deletion could not name these series, and replay would restore
	// the samples.
	if d.opts.Flusher.LogHasRemovedSeries() {
		if err := d.opts.Flusher.All(ctx); err != nil {
			return 0, err
		}
	}
	found, err := d.scanner().Select(ctx, r)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	seq, err := d.opts.Sequence.Allocate(ctx)
	if err != nil {
		return 0, err
	}
	t := &tombstone.Tombstone{
		ID: d.opts.Tombstones.NextID(), Seq: seq, FromMs: r.FromMs, ToMs: r.ToMs, MadeMs: d.opts.Now().UnixMilli(),
		Pending: true, Selectors: r.Selectors,
	}
	if err := d.execute(ctx, t, found); err != nil {
		return len(found), fmt.Errorf("delete %s: %w", t, err)
	}
	d.opts.Metrics.Deletions.Inc()
	d.opts.Logger.Info("samples deleted", "deletion", t.String(), "series", len(found))
	return len(found), nil
}

// execute first deletes samples in memory and for all reads of rows, in one step. Then it deletes in the log, then whole
// metrics in the index. The caller holds the lock of the flusher.
func (d *Deleter) execute(ctx context.Context, t *tombstone.Tombstone, found []index.Series) error {
	clearIndex := func() {}
	metrics, hours := WholeMetrics(t.Selectors), wholeHours(t)
	if hours.First > hours.Last {
		metrics = nil
	}
	var drop index.MetricDrop
	if len(metrics) > 0 {
		drop = d.opts.Index.StartDrop()
		defer drop.Close()
		clearIndex = func() { drop.Clear(refsOf(found, metrics), hours.First, hours.Last) }
	}
	pos, err := d.deleteNow(t, found, clearIndex)
	if err != nil {
		return err
	}
	// The deletion is in force, so it must be finished even if the client has closed the connection.
	ctx = context.WithoutCancel(ctx)
	d.opts.Changed(t.FromMs, t.ToMs)
	if err := d.opts.Log.Wait(ctx, pos); err != nil {
		return err
	}
	d.opts.Tombstones.Confirm(t.ID)
	if err := d.opts.Tombstones.Save(ctx); err != nil {
		return err
	}
	for _, metric := range metrics {
		if err := drop.Segments(ctx, metric, hours.First, hours.Last); err != nil {
			return err
		}
	}
	return nil
}

// refsOf lists the active series of metrics.
func refsOf(found []index.Series, metrics []string) (refs []index.Ref) {
	for _, s := range found {
		if s.Ref != 0 && slices.Contains(metrics, s.Labels.Get(model.MetricNameLabel)) {
			refs = append(refs, s.Ref)
		}
	}
	return refs
}

// enforce deletes samples in memory with deleteSamples and puts the tombstone in force, both within Options.Announce if that is
// set.
func (d *Deleter) enforce(t *tombstone.Tombstone, deleteSamples func() error) error {
	return d.opts.Tombstones.Add(t, func(change func() error) error {
		if d.opts.Announce == nil {
			return change()
		}
		return d.opts.Announce(t.FromMs, t.ToMs, change)
	}, deleteSamples)
}

// deleteNow deletes samples in memory and puts the tombstone in force. clearIndex runs while no sample arrives.
func (d *Deleter) deleteNow(t *tombstone.Tombstone, found []index.Series, clearIndex func()) (pos wal.Position, err error) {
	type number struct{ ref, log uint32 }
	var numbers []number
	for _, s := range found {
		if log := d.opts.Head.LogRef(uint32(s.Ref)); s.Ref != 0 && log != 0 {
			numbers = append(numbers, number{uint32(s.Ref), log})
		}
	}
	slices.SortFunc(numbers, func(a, b number) int { return cmp.Compare(a.log, b.log) })
	logs, refs := make([]uint32, len(numbers)), make([]uint32, len(numbers))
	for n, x := range numbers {
		logs[n], refs[n] = x.log, x.ref
	}
	log := func() (err error) {
		pos, err = d.log(t, logs)
		return err
	}
	err = d.enforce(t, func() error {
		_, err := d.opts.Head.Delete(refs, t.FromMs, t.ToMs, log, clearIndex)
		return err
	})
	return pos, err
}

// log writes a deletion to the log. The caller has locked the stripes of the head.
func (d *Deleter) log(t *tombstone.Tombstone, logs []uint32) (pos wal.Position, err error) {
	for {
		r := record.Deletion{Refs: logs[:min(len(logs), recordRefsMax)]}
		logs = logs[len(r.Refs):]
		if r.Last = len(logs) == 0; r.Last {
			r.Tombstone = tombstone.Append(nil, t)
		}
		if pos, err = d.opts.Log.Append(record.KindDeletion, record.AppendDeletion(nil, r)); err != nil || r.Last {
			return pos, err
		}
	}
}

// Replay repeats a deletion of the log under a new sequence number. refs are its series in the head. When memory runs out, a
// replay flushes samples that a later record deletes, under numbers above the old one. A killed replay may have done that
// too. The log still has every sample written after the deletion. So the tombstone may hide all matching samples in the
// table. The caller calls CleanIndex after the replay.
func (d *Deleter) Replay(ctx context.Context, t *tombstone.Tombstone, refs []uint32) (err error) {
	if t.Seq, err = d.opts.Sequence.Allocate(ctx); err != nil {
		return err
	}
	t.Pending = true
	nothing := func() error { return nil }
	if err := d.enforce(t, func() error {
		_, err := d.opts.Head.Delete(refs, t.FromMs, t.ToMs, nothing, func() {})
		return err
	}); err != nil {
		return err
	}
	d.opts.Tombstones.Confirm(t.ID) // the log has it
	return nil
}
