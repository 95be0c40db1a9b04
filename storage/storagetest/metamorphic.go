package storagetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/storagetest/seeds"
)

const (
	runsDefault  = 8
	runsShort    = 2
	stepsDefault = 400
	// stepsShown is the number of operations before a failure that are printed.
	stepsShown = 40
)

// testMetamorphic runs the same random operations on the engine and on the model, and compares every result.
func testMetamorphic(t *testing.T, s *suite) {
	runs := uint64(cmp.Or(s.caps.Runs, runsDefault))
	// Each run has the same seeds, so that a new failure is due to the last change. More seeds find more failures.
	first, count := seeds.Range(t, seeds.Default{Full: runs, Short: min(runs, runsShort)})
	for seed := first; seed < first+count; seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { s.randomRun(t, seed) })
	}
}

// pair has the two stores of a run and the log of their operations.
type pair struct {
	t      *testing.T
	ctx    context.Context
	caps   Caps
	rng    *rand.Rand
	clock  *clock
	stores [2]storage.Store // model, engine
	tables map[string]*[2]storage.Table
	names  []string
	log    []string
}

func (s *suite) randomRun(t *testing.T, seed uint64) {
	p := &pair{t: t, ctx: context.Background(), caps: s.caps, rng: rand.New(rand.NewPCG(seed, 0)), clock: newClock(),
		tables: map[string]*[2]storage.Table{}}
	p.stores = [2]storage.Store{NewModel(p.clock.now), s.open(t, p.clock.now)}
	defer func() {
		if t.Failed() {
			t.Logf("repeat with HALITE_SEED=%d; the last operations:\n%s", seed,
				strings.Join(p.log[max(0, len(p.log)-stepsShown):], "\n"))
		}
		require.NoError(t, p.stores[1].Close())
	}()
	p.ensureAll()
	steps := s.caps.StepsMax
	if steps == 0 {
		steps = stepsDefault
	}
	for range steps {
		p.step()
	}
	p.compareAll()
}

func (p *pair) note(format string, args ...any) { p.log = append(p.log, fmt.Sprintf(format, args...)) }

// both runs fn on model and engine. Their errors must be of the same kind.
func (p *pair) both(what string, fn func(i int) error) {
	p.t.Helper()
	model, engine := fn(0), fn(1)
	require.Equal(p.t, errorKind(model), errorKind(engine), "%s: model %v, engine %v", what, model, engine)
}

// errorKind names the sentinels and the failed rows in an error.
func errorKind(err error) string {
	if err == nil {
		return ""
	}
	kind := "other"
	for _, sentinel := range []error{storage.ErrBadKey, storage.ErrBadMutation, storage.ErrNoTable,
		storage.ErrSchemaMismatch, storage.ErrCorrupt, storage.ErrUnavailable} {
		if errors.Is(err, sentinel) {
			kind += ", " + sentinel.Error()
		}
	}
	var failed *storage.ApplyError
	if errors.As(err, &failed) {
		for _, r := range failed.Rows {
			kind += fmt.Sprintf(", row %d", r.Index)
		}
	}
	return kind
}

// ensureAll creates the run's tables with random policies.
func (p *pair) ensureAll() {
	aggregates := []storage.Family{{Name: "sum", Kind: storage.SumInt64, GC: p.policy()}, {Name: "p", GC: p.policy()}}
	if !p.caps.NoMinMax {
		aggregates = append(aggregates, storage.Family{Name: "min", Kind: storage.MinInt64, GC: p.policy()},
			storage.Family{Name: "max", Kind: storage.MaxInt64})
	}
	for _, schema := range []storage.TableSchema{
		{Name: "plain", Families: []storage.Family{{Name: "b", GC: p.policy()}, {Name: "a", GC: p.policy()}}},
		{Name: "hours", HourKeys: true, Families: []storage.Family{{Name: "s", GC: p.policy()}, {Name: "h", GC: p.policy()}}},
		{Name: "even_hours", HourKeys: true, Families: []storage.Family{{Name: "s", GC: p.policy()},
			{Name: "h", GC: p.policy()}}},
		{Name: "agg", Families: aggregates},
	} {
		p.note("ensure %+v", schema)
		p.names = append(p.names, schema.Name)
		p.tables[schema.Name] = &[2]storage.Table{}
		p.ensure(schema)
	}
}

func (p *pair) ensure(schema storage.TableSchema) {
	p.both("ensure", func(i int) (err error) {
		p.tables[schema.Name][i], err = p.stores[i].EnsureTable(p.ctx, schema)
		return err
	})
}

func (p *pair) policy() storage.GCPolicy {
	var gc storage.GCPolicy
	if p.rng.IntN(2) == 0 && !p.caps.OwnClock {
		gc.MaxAge = time.Duration(1+p.rng.IntN(100)) * time.Hour
	}
	if p.rng.IntN(2) == 0 && !p.caps.InexactGC {
		gc.MaxVersions = 1 + p.rng.IntN(3)
	}
	gc.Intersection = p.rng.IntN(3) == 0 && !p.caps.NoIntersection && !p.caps.InexactGC
	return gc
}

// step does one random operation.
func (p *pair) step() {
	name := p.names[p.rng.IntN(len(p.names))]
	switch n := p.rng.IntN(100); {
	case n < 40:
		p.applySome(name)
	case n < 48:
		p.loadSome(name)
	case n < 80:
		p.compareRead(name)
	case n < 84:
		p.checkSome(name)
	case n < 85:
		p.dropCells(name)
	case n < 87:
		r := p.rowRange(name)
		p.note("drop %s %q", name, r)
		p.both("drop", func(i int) error { return p.tables[name][i].DropRows(p.ctx, r) })
	case n < 89:
		p.note("sync")
		p.both("sync", func(i int) error { return p.stores[i].Sync(p.ctx) })
	case n < 91:
		p.note("collect garbage at %v", p.clock.now())
		p.both("collect", func(i int) error { return p.stores[i].CollectGarbage(p.ctx) })
	case n < 93:
		p.reopen()
	case n < 94:
		if p.caps.Compact != nil {
			p.note("compact")
			p.caps.Compact(p.t, p.stores[1])
		}
	case n < 97:
		d := time.Duration(p.rng.Int64N(int64(30 * time.Hour)))
		p.note("advance %v", d)
		p.clock.advance(d)
	case n < 98:
		p.changePolicy(name)
	default:
		tablets, err := p.tables[name][1].Tablets(p.ctx)
		require.NoError(p.t, err)
		wantCover(p.t, tablets)
	}
}

// changePolicy replaces the number of versions. It never raises the age: the cells that then reappear depend on
// earlier garbage collection.
func (p *pair) changePolicy(name string) {
	if p.caps.InexactGC {
		return
	}
	schema := p.tables[name][0].Schema()
	schema.Families = slices.Clone(schema.Families)
	at := p.rng.IntN(len(schema.Families))
	gc := &schema.Families[at].GC
	if gc.MaxVersions == 0 || gc.Intersection {
		return
	}
	gc.MaxVersions = 1 + p.rng.IntN(3)
	p.note("ensure %+v", schema)
	p.ensure(schema)
}

func (p *pair) reopen() {
	if p.caps.Reopen == nil {
		return
	}
	p.note("reopen")
	p.stores[1] = p.caps.Reopen(p.t, p.stores[1], p.clock.now)
	for _, name := range p.names {
		table, err := p.stores[1].Table(p.ctx, name)
		require.NoError(p.t, err)
		p.tables[name][1] = table
	}
	p.compareAll()
}

func (p *pair) applySome(name string) {
	muts := make([]storage.RowMutation, 1+p.rng.IntN(6))
	for i := range muts {
		muts[i] = p.rowMutation(name, false)
		if p.rng.IntN(100) == 0 {
			muts[i].Key = nil
		}
	}
	p.note("apply %s %s", name, showMutations(muts))
	p.both("apply", func(i int) error { return p.tables[name][i].Apply(p.ctx, muts) })
}

func (p *pair) loadSome(name string) {
	var muts []storage.RowMutation
	for range 1 + p.rng.IntN(20) {
		muts = append(muts, p.rowMutation(name, true))
	}
	slices.SortFunc(muts, func(a, b storage.RowMutation) int { return slices.Compare(a.Key, b.Key) })
	if p.rng.IntN(20) > 0 {
		muts = slices.CompactFunc(muts, func(a, b storage.RowMutation) bool { return slices.Equal(a.Key, b.Key) })
	}
	p.note("load %s %s", name, showMutations(muts))
	p.both("load", func(i int) error { return p.tables[name][i].Load(p.ctx, muts) })
}

func (p *pair) checkSome(name string) {
	key := p.key(name)
	cond := p.filter(name)
	then, otherwise := p.rowMutation(name, false), p.rowMutation(name, false)
	then.Key, otherwise.Key = nil, nil
	if p.rng.IntN(4) == 0 {
		then.Entries = nil
	}
	p.note("check %s %q %+v then %s else %s", name, key, cond, showMutations([]storage.RowMutation{then}),
		showMutations([]storage.RowMutation{otherwise}))
	var matched [2]bool
	p.both("check", func(i int) (err error) {
		matched[i], err = p.tables[name][i].CheckAndApply(p.ctx, key, cond, then, otherwise)
		return err
	})
	require.Equal(p.t, matched[0], matched[1])
}

func (p *pair) compareRead(name string) {
	set, opts := p.rowSet(name), storage.ReadOptions{Filter: p.filter(name)}
	opts.Reverse = !p.caps.NoReverse && p.rng.IntN(3) == 0
	if p.rng.IntN(4) == 0 {
		opts.RowsMax = 1 + p.rng.IntN(5)
	}
	p.note("read %s %q %+v", name, set, opts)
	p.compare(name, set, opts)
}

func (p *pair) compare(name string, set storage.RowSet, opts storage.ReadOptions) {
	var rows [2][]storage.Row
	p.both("read", func(i int) (err error) {
		rows[i], err = readAll(p.ctx, p.tables[name][i], set, opts)
		return err
	})
	require.Equal(p.t, lines(rows[0]), lines(rows[1]), "table %s set %q options %+v", name, set, opts)
}

// compareAll compares the whole content.
func (p *pair) compareAll() {
	for _, name := range p.names {
		p.compare(name, everything(), storage.ReadOptions{})
	}
}
