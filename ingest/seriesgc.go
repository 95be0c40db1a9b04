package ingest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"halite/ingest/head"
	"halite/keyschema"
	"halite/storage/index"
)

const (
	// removeBatch is the number of series that one batch removes from memory. A batch blocks writers for about a millisecond.
	removeBatch = 2048
	// idleAfterNearLimit replaces a longer HeadOptions.IdleAfter while a limit of series warns.
	idleAfterNearLimit = time.Hour
)

// idleBefore returns an hour. A series is idle if its last sample is older. Near a limit of series, series become idle
// sooner, to make room for new ones.
func (i *Ingester) idleBefore() int64 {
	after := i.opts.Head.IdleAfter
	if i.seriesLimits.near() {
		after = min(after, idleAfterNearLimit)
	}
	return i.now().Add(-after).UnixMilli() / keyschema.HourMs
}

// collectSeries removes from memory the series that have had no samples for long.
func (i *Ingester) collectSeries(ctx context.Context) error {
	i.flusher.Lock()
	defer i.flusher.Unlock()
	// The index may remove only series whose samples are in the tables. A series that gets samples after this point has rows
	// in the head.
	if err := i.persist(ctx); err != nil {
		return err
	}
	until, err := i.log.Rotate()
	if err != nil {
		return fmt.Errorf("rotate the log: %w", err)
	}
	return i.CollectSeries(ctx, i.idleBefore(), func(log uint32) { i.flusher.AddStaleRef(log, 0, until) })
}

// removeTenantSeries removes from memory the series of a tenant without samples. It writes the head to the tables, so that the
// log no longer names the series.
func (i *Ingester) removeTenantSeries(ctx context.Context, prefix string) error {
	i.flusher.Lock()
	defer i.flusher.Unlock()
	until, err := i.log.Rotate()
	if err != nil {
		return fmt.Errorf("rotate the log: %w", err)
	}
	i.rulesMu.Lock()
	idle := slices.DeleteFunc(i.index.Idle(math.MaxInt64), func(ref index.Ref) bool {
		return !strings.HasPrefix(i.index.Metric(ref), prefix)
	})
	err = i.collect(ctx, idle, math.MaxInt64, func(log uint32) { i.flusher.AddStaleRef(log, 0, until) })
	i.rulesMu.Unlock()
	if err != nil {
		return err
	}
	// Maintain deletes what an interrupted removal of hours has left.
	if err := i.index.Maintain(ctx); err != nil {
		return err
	}
	return i.flusher.All(ctx)
}

// CollectSeries removes from memory the series whose last sample lies before an hour and that have no rows in the head. It calls
// removed with each series' number in the log. Requests run between batches. They see each batch before or after its removal.
func (w *Writer) CollectSeries(ctx context.Context, before int64, removed func(log uint32)) error {
	w.rulesMu.Lock()
	defer w.rulesMu.Unlock()
	w.trimRelabelCache()
	return w.collect(ctx, w.index.Idle(before), before, removed)
}

// collect is CollectSeries for some idle series. The caller holds rulesMu.
func (w *Writer) collect(ctx context.Context, idle []index.Ref, before int64, removed func(log uint32)) error {
	if len(idle) == 0 {
		return nil
	}
	removals := []*head.Removal{w.startRemoval(w.registry, idle)}
	if rules := w.rules.Load(); rules != nil {
		removals = append(removals, w.startRemoval(rules.Known, idle))
	}
	defer func() {
		w.regMu.Lock()
		defer w.regMu.Unlock()
		for _, removal := range removals {
			removal.Close()
		}
	}()
	for batch := range slices.Chunk(idle, removeBatch) {
		if err := ctx.Err(); err != nil {
			return err
		}
		w.removeIdle(removals, batch, before, removed)
	}
	w.index.FreeRetired()
	return nil
}

// trimRelabelCache empties the relabelling cache when it is full, or when a replica has been away for long. Senders may no
// longer send many of its series. The caller holds rulesMu.
func (w *Writer) trimRelabelCache() {
	rules := w.rules.Load()
	if rules != nil && (rules.Known.Len() >= w.knownMax(rules) || rules.HA.HasIdle()) {
		w.swapRules(rules.Fresh())
		rules.HA.RemoveIdle()
	}
}

// dropElections removes the elections of a tenant whose requests are refused. It also empties the relabelling cache, which
// refers to the tenant's replicas.
func (w *Writer) dropElections(ctx context.Context, prefix string) error {
	w.rulesMu.Lock()
	defer w.rulesMu.Unlock()
	rules := w.rules.Load()
	if rules.Tracker() != nil {
		w.swapRules(rules.Fresh())
	}
	if err := rules.Tracker().DropTenant(ctx, w.meta, prefix); err != nil {
		return fmt.Errorf("drop the elections of a tenant: %w", err)
	}
	return w.sync(ctx)
}

// startRemoval finds the encodings of the series in a registry. It blocks only registrations of series, for a short time.
func (w *Writer) startRemoval(registry *head.Registry, idle []index.Ref) *head.Removal {
	refs := make([]uint32, len(idle))
	for n, ref := range idle {
		refs[n] = uint32(ref)
	}
	w.regMu.Lock()
	removal := registry.StartRemoval(refs)
	w.regMu.Unlock()
	for more := true; more; {
		w.regMu.Lock()
		more = removal.Scan()
		w.regMu.Unlock()
	}
	return removal
}

// removeIdle removes series that are still idle.
func (w *Writer) removeIdle(removals []*head.Removal, idle []index.Ref, before int64, removed func(log uint32)) {
	w.seriesGCLock.Lock()
	defer w.seriesGCLock.Unlock()
	retired := w.index.Retire(idle, before, func(ref index.Ref) bool { return w.head.HasRows(uint32(ref)) })
	refs := make([]uint32, 0, len(retired))
	for _, r := range retired {
		ref := uint32(r)
		if log := w.head.LogRef(ref); log != 0 {
			refs = append(refs, ref)
			removed(log)
		}
	}
	for _, removal := range removals {
		removal.Remove(refs)
	}
	w.head.Unregister(refs)
	w.series.Add(-int64(len(refs)))
	w.metrics.retired.Add(float64(len(refs)))
}
