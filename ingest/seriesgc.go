package ingest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"halite/ingest/head"
	"halite/keyschema"
	"halite/storage/index"
)

const (
	// retireSlice is the number of series that are forgotten at once: writers wait for about a millisecond.
	retireSlice = 2048
	// idleAfterNearLimit replaces HeadOptions.IdleAfter while a limit of series warns, if it is shorter.
	idleAfterNearLimit = time.Hour
)

// idleBefore is the hour from which on a series that is not idle has samples. Near a limit of series, idle ones make room
// for new ones sooner.
func (i *Ingester) idleBefore() int64 {
	after := i.hopts.IdleAfter
	if i.seriesLimits.near() {
		after = min(after, idleAfterNearLimit)
	}
	return i.opts.Now().Add(-after).UnixMilli() / keyschema.HourMs
}

// retire forgets series without samples for long, some at a time, and frees their memory. Requests go on between two
// slices, and see each slice before or after its series are forgotten.
func (i *Ingester) retire(ctx context.Context) error {
	i.flusher.Lock()
	defer i.flusher.Unlock()
	// What the catalogue forgets must be in the tables; series touched from here on have rows in the head.
	if err := i.persist(ctx); err != nil {
		return err
	}
	until, err := i.log.Cut()
	if err != nil {
		return fmt.Errorf("cut the log: %w", err)
	}
	before := i.idleBefore()
	idle := i.opts.Index.Idle(before)
	if len(idle) == 0 {
		return nil
	}
	removal := i.startRemoval(idle)
	defer func() {
		i.regMu.Lock()
		defer i.regMu.Unlock()
		removal.Close()
	}()
	for slice := range slices.Chunk(idle, retireSlice) {
		if err := ctx.Err(); err != nil {
			return err
		}
		i.forget(removal, slice, before, until)
	}
	i.opts.Index.Compact()
	return nil
}

// startRemoval looks for the series' encodings. Only the registration of series waits meanwhile, and not for long.
func (i *intake) startRemoval(idle []index.Ref) *head.Removal {
	refs := make([]uint32, len(idle))
	for n, ref := range idle {
		refs[n] = uint32(ref)
	}
	i.regMu.Lock()
	removal := i.registry.Remove(refs)
	i.regMu.Unlock()
	for more := true; more; {
		i.regMu.Lock()
		more = removal.Scan()
		i.regMu.Unlock()
	}
	return removal
}

// forget lets go of those of the series that are still idle. The caller holds the lock of the flusher.
func (i *Ingester) forget(removal *head.Removal, idle []index.Ref, before int64, until uint64) {
	i.epoch.Lock()
	defer i.epoch.Unlock()
	retired := i.opts.Index.Retire(idle, before, func(ref index.Ref) bool { return i.head.Busy(uint32(ref)) })
	refs := make([]uint32, 0, len(retired))
	for _, r := range retired {
		ref := uint32(r)
		if log := i.head.LogRef(ref); log != 0 {
			refs = append(refs, ref)
			i.flusher.AddStaleRef(log, 0, until)
		}
	}
	removal.Forget(refs)
	i.head.Forget(refs)
	i.series.Add(-int64(len(refs)))
	i.metrics.retired.Add(float64(len(refs)))
}
