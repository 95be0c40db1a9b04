package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"halite/keyschema"
	"halite/rollup/store"
	"halite/storage"
)

// batch collects mutations in key order and writes them together.
type batch struct {
	j               *Job
	writes          []storage.RowMutation
	removals        []storage.RowMutation // mutations that delete cells
	throttle        throttle
	dropped         bool // flush omitted series because of marks
	readOnly        bool // the pass writes nothing
	arena           []byte
	bytes           int
	series, samples int
	counted         int       // samples counted by the metric
	begun           time.Time // when the pass read the first series of the batch
	awake           time.Time // when the pass last recorded that it runs
}

const arenaBytes = 1 << 20

func newBatch(j *Job, share float64) batch {
	return batch{j: j, throttle: throttle{j: j, since: time.Now(), share: share}}
}

// alloc calls write to append to the arena, and returns the appended bytes.
func (b *batch) alloc(write func(dst []byte) []byte) []byte {
	if cap(b.arena)-len(b.arena) < arenaBytes/16 {
		b.arena = make([]byte, 0, arenaBytes)
	}
	start := len(b.arena)
	b.arena = write(b.arena)
	b.bytes += len(b.arena) - start
	return b.arena[start:len(b.arena):len(b.arena)]
}

// write adds the mutation of a series.
func (b *batch) write(ctx context.Context, m storage.RowMutation) error {
	b.writes = append(b.writes, m)
	return b.finishSeries(ctx)
}

// remove adds a mutation that deletes cells of a series, unless it is empty.
func (b *batch) remove(ctx context.Context, m storage.RowMutation) error {
	if len(m.Entries) > 0 {
		b.removals = append(b.removals, m)
	}
	return b.finishSeries(ctx)
}

func (b *batch) finishSeries(ctx context.Context) error {
	b.series++
	if b.bytes < b.j.opts.BatchBytes && !b.isOld() {
		return nil
	}
	return b.flush(ctx)
}

// flush writes the batch, except series that were marked since the pass began.
func (b *batch) flush(ctx context.Context) error {
	if len(b.writes)+len(b.removals) == 0 {
		return nil
	}
	err := b.j.store.Manifest.WriteStates(func(touched map[string]struct{}) error {
		writes, removals := untouched(b.writes, touched), untouched(b.removals, touched)
		b.dropped = b.dropped || len(writes)+len(removals) < len(b.writes)+len(b.removals)
		if err := b.apply(ctx, writes, removals); err != nil {
			return fmt.Errorf("write %d rows to table %s: %w", len(writes), storage.TableRollup, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	m := b.j.metrics
	m.bytes.Add(float64(b.bytes))
	m.series.Add(float64(len(b.writes)))
	m.samples.Add(float64(b.samples - b.counted))
	m.passSeries.Set(float64(b.series))
	clear(b.writes)
	clear(b.removals)
	b.writes, b.removals, b.arena, b.bytes, b.counted = b.writes[:0], b.removals[:0], nil, 0, b.samples
	b.begun = time.Time{}
	return nil
}

// untouched omits the mutations of the touched series. It changes muts.
func untouched(muts []storage.RowMutation, touched map[string]struct{}) []storage.RowMutation {
	if len(touched) == 0 {
		return muts
	}
	return slices.DeleteFunc(muts, func(m storage.RowMutation) bool {
		prefix, _, _ := keyschema.CutMonth(m.Key)
		_, isTouched := touched[string(prefix)]
		return isTouched
	})
}

// apply writes states and removes others. If several processes share the tables, it does so within Limit after it has
// checked that no other process has taken over.
func (b *batch) apply(ctx context.Context, writes, removals []storage.RowMutation) error {
	j, table := b.j, b.j.store.Table
	if j.shared == nil {
		if err := store.ApplyAll(ctx, table, removals); err != nil {
			return err
		}
		return table.Load(ctx, writes)
	}
	left := j.shared.Limit() - j.tick().Sub(b.begun)
	if left <= 0 {
		return errSlow
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	if err := j.store.Manifest.CheckToken(ctx); err != nil {
		return err
	}
	return errors.Join(store.ApplyAll(ctx, table, removals), store.ApplyAll(ctx, table, writes))
}

// errSlow means that the computed states may be too old to write.
var errSlow = errors.New("the pass was too slow or suspended; it starts again")

// checkAwake records that the pass is running. It fails if the pass was suspended for long, because its input may be
// outdated.
func (b *batch) checkAwake() error {
	if b.j.shared == nil || b.readOnly {
		return nil
	}
	now := b.j.tick()
	if !b.awake.IsZero() && now.Sub(b.awake) > b.j.shared.Limit() {
		return errSlow
	}
	if b.awake = now; b.begun.IsZero() {
		b.begun = now
	}
	return nil
}

// isOld reports whether the batch should be written because of its age.
func (b *batch) isOld() bool {
	return b.j.shared != nil && b.j.tick().Sub(b.begun) > b.j.shared.Limit()/4
}
