package direct

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/ingest/deletion"
	"halite/ingest/ingesttest"
	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/keyschema/exemplar"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/storagetest"
	"halite/storage/storagetest/seeds"
	"halite/storage/tombstone"
)

// hookStore calls hook before each write of a table. Error before fails the write before it takes effect, error after fails it
// afterwards, and partial makes an Apply leave out rows.
type hookStore struct {
	storage.Store
	hook func() (before, after error, partial bool)
	dead atomic.Bool // the server that uses the store was killed, so its calls have no effect
}

func (s *hookStore) runHook() (before, after error, partial bool) {
	if before, after, partial = s.hook(); s.dead.Load() {
		before = errInjectedOutage
	}
	return before, after, partial
}

func (s *hookStore) EnsureTable(ctx context.Context, schema storage.TableSchema) (storage.Table, error) {
	t, err := s.Store.EnsureTable(ctx, schema)
	return &hookTable{t, s}, err
}

func (s *hookStore) Table(ctx context.Context, name string) (storage.Table, error) {
	t, err := s.Store.Table(ctx, name)
	return &hookTable{t, s}, err
}

type hookTable struct {
	storage.Table
	s *hookStore
}

func (t *hookTable) Apply(ctx context.Context, muts []storage.RowMutation) error {
	before, after, partial := t.s.runHook()
	failed := &storage.ApplyError{}
	fail := func(n int, err error) { failed.Rows = append(failed.Rows, storage.RowError{Index: n, Err: err}) }
	some := make([]storage.RowMutation, 0, len(muts))
	for n, m := range muts {
		switch {
		case before != nil:
			fail(n, before)
		case partial && n%2 == 1:
			fail(n, errInjectedOutage)
		default:
			some = append(some, m)
			if after != nil {
				fail(n, after)
			}
		}
	}
	if len(some) > 0 {
		if err := t.Table.Apply(ctx, some); err != nil {
			return err
		}
	}
	if len(failed.Rows) > 0 {
		return failed
	}
	return nil
}

func (t *hookTable) CheckAndApply(
	ctx context.Context, key []byte, cond storage.Filter, then, otherwise storage.RowMutation,
) (bool, error) {
	if bytes.HasPrefix(key, []byte("lease#")) { // renewed by a goroutine of its own, at moments that no seed decides
		if t.s.dead.Load() {
			return false, errInjectedOutage
		}
		return t.Table.CheckAndApply(ctx, key, cond, then, otherwise)
	}
	before, after, _ := t.s.runHook()
	if before != nil {
		return false, before
	}
	matched, err := t.Table.CheckAndApply(ctx, key, cond, then, otherwise)
	return matched, errors.Join(err, after)
}

var errInjectedOutage = fmt.Errorf("injected: %w", storage.ErrUnavailable)

// place is a sample's series and time.
type place struct {
	series int
	tsMs   int64
}

// belief holds the possible values of a sample.
type belief struct {
	values map[float64]bool
	acked  bool
	events int // beginnings and ends of writes and deletions
	open   int // writes under way
	cuts   int // begun deletions that cover the sample
}

// directWorld has several servers over the same tables.
type directWorld struct {
	t      *testing.T
	rng    *rand.Rand
	clock  *ingesttest.Clock
	tables storage.Store
	schema *keyschema.Schema
	nodes  []*Direct
	faults bool
	depth  int
	busy   *Direct // the server that writes while others work
	value  float64
	book   map[place]*belief
	acked  int
	failed int
	cuts   int // deletions that succeeded
	clean  int // deletions that were cleaned

	// reach is how far back samples and deletions lie, in milliseconds.
	reach int64
	// hook replaces interfere, if it is set.
	hook func() (before, after error, partial bool)
	// extend adds the other parts of a server.
	extend func(o *Options, set *tombstone.Set, hooks *hookStore)
}

const seriesCount = 12

func newDirectWorld(t *testing.T, seed uint64, nodes int) *directWorld {
	w := &directWorld{
		t: t, rng: rand.New(rand.NewPCG(seed, 5)), clock: ingesttest.NewClock(), book: map[place]*belief{}, reach: 3 * keyschema.HourMs,
	}
	w.tables = storagetest.NewModel(w.clock.Now)
	var err error
	w.schema, err = keyschema.NewSchema(nil)
	require.NoError(t, err)
	for range nodes {
		w.nodes = append(w.nodes, w.start())
	}
	return w
}

// start opens the tables as a new server. Its jobs are off: the test runs them.
func (w *directWorld) start() *Direct {
	faults := w.faults
	w.faults = false
	defer func() { w.faults = faults }()
	store := &hookStore{Store: w.tables, hook: w.interfere}
	if w.hook != nil {
		store.hook = w.hook
	}
	writer := index.NewWriter()
	set, err := tombstone.Open(context.Background(), tombstone.Options{Store: store, Shared: true})
	require.NoError(w.t, err)
	opts := Options{
		Tombstones: set, Store: set.Store(), Writer: writer, Schema: w.schema, Now: w.clock.Now, Refresh: -1,
		WriteTimeout:    time.Minute, // injected failures do not last
		PackConcurrency: 1,           // interfere runs in one goroutine
		Logger:          w.logger(),
	}
	if w.extend != nil {
		w.extend(&opts, set, store)
	}
	opts.Index, err = index.Open(context.Background(), index.Options{
		Store: opts.Store, Schema: w.schema, Now: w.clock.Now, Writer: writer,
	})
	require.NoError(w.t, err)
	set.SetLabelSets(opts.Index.LabelSet)
	n, err := Open(context.Background(), opts)
	require.NoError(w.t, err)
	n.retryDelay = 100 * time.Microsecond
	return n
}

// interfere fails writes, and runs other servers in the middle of them.
func (w *directWorld) interfere() (before, after error, partial bool) {
	if !w.faults {
		return nil, nil, false
	}
	switch n := w.rng.IntN(100); {
	case n < 3:
		return errInjectedOutage, nil, false
	case n < 6:
		return nil, errInjectedOutage, false
	case n < 10:
		return nil, nil, true
	case n < 30 && w.depth == 0:
		w.depth++
		for range 1 + w.rng.IntN(3) {
			if n := w.nodes[w.rng.IntN(len(w.nodes))]; n != w.busy {
				w.step(n)
			}
		}
		w.depth--
	}
	return nil, nil, false
}

func seriesLabels(n int) labels.Labels {
	return labels.FromStrings("__name__", fmt.Sprint("m", n%3), "n", fmt.Sprint(n))
}

// write sends samples of the last hours to a server.
func (w *directWorld) write(n *Direct) {
	var samples []ingest.Sample
	begun, cuts := map[place]int{}, map[place]int{}
	values := map[place]float64{}
	for range 1 + w.rng.IntN(8) {
		p := place{series: w.rng.IntN(seriesCount), tsMs: w.clock.Ms.Load() - w.rng.Int64N(1+w.rng.Int64N(w.reach))}
		p.tsMs -= p.tsMs % (5 * 60_000) // often the same ones
		w.value++
		samples = append(samples, ingest.Sample{Labels: seriesLabels(p.series), TsMs: p.tsMs, Value: w.value})
		b := w.book[p]
		if b == nil {
			b = &belief{values: map[float64]bool{}}
			w.book[p] = b
		}
		if _, twice := begun[p]; !twice {
			b.events++
			b.open++
		}
		b.values[w.value] = true
		begun[p], values[p], cuts[p] = b.events, w.value, b.cuts
	}
	_, err := n.Write(context.Background(), ingest.SamplesInput(samples))
	if err != nil {
		var overload *ingest.OverloadError
		require.ErrorAs(w.t, err, &overload)
		w.failed++
	} else {
		w.acked++
	}
	for p, events := range begun {
		b := w.book[p]
		if err == nil {
			b.acked = b.acked || b.cuts == cuts[p] // a concurrent deletion may come later
			if b.events == events && b.open == 1 { // no other write of the sample ran meanwhile
				b.values = map[float64]bool{values[p]: true}
			}
		}
		b.events++
		b.open--
	}
}

// delete lets a server delete samples of some series.
func (w *directWorld) delete(n *Direct) {
	from := w.clock.Ms.Load() - w.rng.Int64N(w.reach+keyschema.HourMs)
	to := from + w.rng.Int64N(2*keyschema.HourMs)
	name, value := "n", fmt.Sprint(w.rng.IntN(seriesCount))
	if w.rng.IntN(3) == 0 {
		name, value = "__name__", fmt.Sprint("m", w.rng.IntN(3))
	}
	m := labels.MustNewMatcher(labels.MatchEqual, name, value)
	deleted := func(p place) bool {
		return from <= p.tsMs && p.tsMs <= to && m.Matches(seriesLabels(p.series).Get(name))
	}
	begun := map[place]int{}
	for p, b := range w.book {
		if deleted(p) {
			b.events++
			b.cuts++
			begun[p] = b.events
		}
	}
	_, err := n.DeleteSeries(context.Background(), deletion.Request{Selectors: [][]*labels.Matcher{{m}}, FromMs: from, ToMs: to})
	if err == nil {
		w.cuts++
	}
	for p, b := range w.book {
		if !deleted(p) {
			continue
		}
		if b.acked = false; err == nil && b.open == 0 && b.events == begun[p] { // no write of the sample ran meanwhile
			b.values = map[float64]bool{}
		}
		b.events++
		b.cuts++
	}
}

func (w *directWorld) step(n *Direct) {
	if w.depth == 0 {
		w.busy = n
	}
	switch w.rng.IntN(10) {
	case 8:
		w.delete(n)
	case 9:
		report, err := n.CleanTombstones(context.Background())
		if err == nil {
			w.clean += report.Tombstones
		}
	case 0, 1, 2, 3, 4:
		w.write(n)
	case 5:
		w.clock.Advance(time.Duration(w.rng.IntN(12)) * time.Minute)
	default:
		// It may fail like any write. If the index lacks memory for the new hours, the server cannot refresh either.
		_ = n.Pack(context.Background())
	}
}

// rows reads all rows.
func (w *directWorld) rows() (found map[place]float64, singles int) {
	w.t.Helper()
	set, err := tombstone.Open(context.Background(), tombstone.Options{Store: w.tables})
	require.NoError(w.t, err)
	data, err := set.Store().Table(context.Background(), storage.TableData)
	require.NoError(w.t, err)
	found = map[place]float64{}
	it := data.ReadRows(context.Background(), storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{})
	for it.Next() {
		k, err := keyschema.ParseRowKey(it.Row().Key)
		require.NoError(w.t, err)
		series, err := strconv.Atoi(k.Tags[0].Value)
		require.NoError(w.t, err)
		var row chunk.Row
		row.Reset(keyschema.HourStartMs(k.Hour))
		for _, c := range it.Row().Cells {
			require.NoError(w.t, row.Add(c.Qualifier, c.Value))
			if q, err := keyschema.ParseQualifier(c.Qualifier); err == nil && q.Kind != keyschema.KindChunk {
				singles++
			}
		}
		tsMs, values := row.Columns()
		for i := range tsMs {
			found[place{series, tsMs[i]}] = values[i]
		}
	}
	require.NoError(w.t, it.Err())
	return found, singles
}

// check compares all rows with their possible values.
func (w *directWorld) check(what string) (singles int) {
	w.t.Helper()
	found, singles := w.rows()
	for p, b := range w.book {
		v, there := found[p]
		if b.acked {
			require.True(w.t, there, "%s: an acknowledged sample is gone: %+v", what, p)
		}
		require.True(w.t, !there || b.values[v], "%s: %+v is %v, may be %v", what, p, v, b.values)
		delete(found, p)
	}
	require.Empty(w.t, found, "%s: nobody wrote these", what)
	return singles
}

// TestDirectAndCompactor: servers write the same samples in time and late, pack, delete, clean, and fail, also in the
// middle of each other's writes. No acknowledged sample is lost or replaced by an earlier one, no deleted sample comes
// back, and in the end all rows are packed and clean.
func TestDirectAndCompactor(t *testing.T) {
	first, count := seeds.Range(t, seeds.Default{Full: 4, Short: 2})
	acked, failed, cuts, clean := 0, 0, 0, 0
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newDirectWorld(t, seed, 3)
			for range 10 {
				w.faults = true
				for range 20 {
					w.step(w.nodes[w.rng.IntN(len(w.nodes))])
				}
				w.faults = false
				w.check("under way")
			}
			w.revisit()
			w.clock.Advance(2 * time.Hour)
			for range 3 {
				require.NoError(t, w.nodes[0].Pack(t.Context()))
			}
			w.nodes = append(w.nodes, w.start())
			w.refresh()
			require.Zero(t, w.check("in the end"), "single samples and marks that are left")
			report, err := w.nodes[1].CleanTombstones(t.Context())
			require.NoError(t, err)
			require.Zero(t, report.Waiting)
			w.nodes = append(w.nodes, w.start())
			w.refresh()
			require.Zero(t, w.check("cleaned"))
			require.Zero(t, w.nodes[len(w.nodes)-1].opts.Tombstones.Len())
			acked, failed, cuts, clean = acked+w.acked, failed+w.failed, cuts+w.cuts, clean+w.clean
			for _, n := range w.nodes {
				require.NoError(t, n.Close(t.Context()))
			}
		})
	}
	t.Logf("%d writes acknowledged, %d failed; %d deletions, %d cleaned under way", acked, failed, cuts, clean)
}

// revisit writes one more sample to each row. So rows that hold only cells of failed writes get a note, too.
func (w *directWorld) revisit() {
	seen := map[place]bool{}
	places := slices.SortedFunc(maps.Keys(w.book), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.series, b.series), cmp.Compare(a.tsMs, b.tsMs))
	})
	w.rng.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	for _, p := range places {
		hour := place{p.series, keyschema.HourStartMs(keyschema.HourOf(p.tsMs))}
		if seen[hour] {
			continue
		}
		seen[hour] = true
		w.value++
		w.book[hour] = &belief{values: map[float64]bool{w.value: true}, acked: true}
		sample := ingest.Sample{Labels: seriesLabels(p.series), TsMs: hour.tsMs, Value: w.value}
		_, err := w.nodes[0].Write(w.t.Context(), ingest.SamplesInput([]ingest.Sample{sample}))
		require.NoError(w.t, err)
	}
}

// refresh refreshes all servers, and checks that each finds the hour of every acknowledged sample.
func (w *directWorld) refresh() {
	for i, n := range w.nodes {
		require.NoError(w.t, n.refresh(context.Background()))
		for p, b := range w.book {
			if !b.acked {
				continue
			}
			metric := labels.MustNewMatcher(labels.MatchEqual, "n", fmt.Sprint(p.series))
			found, err := n.Index().Select(context.Background(), nil, p.tsMs, p.tsMs, metric)
			require.NoError(w.t, err)
			require.Len(w.t, found, 1, "server %d of %d: %+v", i, len(w.nodes), p)
		}
	}
}

// TestDirectSeesOthers: a server sees the writes of another one after its next refresh, not before, and reports a
// failed refresh.
func TestDirectSeesOthers(t *testing.T) {
	w := newDirectWorld(t, 1, 2)
	sample := ingest.Sample{Labels: seriesLabels(1), TsMs: startMs, Value: 1}
	result, err := w.nodes[0].Write(t.Context(), ingest.SamplesInput([]ingest.Sample{sample}))
	require.NoError(t, err)
	require.Equal(t, 1, result.Accepted)
	seen := func(n *Direct) int {
		found, err := n.Index().Select(t.Context(), nil, startMs, startMs)
		require.NoError(t, err)
		return len(found)
	}
	require.Equal(t, 1, seen(w.nodes[0]))
	require.Equal(t, 0, seen(w.nodes[1]))
	require.NoError(t, w.nodes[1].refresh(t.Context()))
	require.Equal(t, 1, seen(w.nodes[1]))
	w.clock.Advance(time.Minute)
	_, err = w.nodes[1].Index().Select(t.Context(), nil, startMs, startMs)
	require.ErrorIs(t, err, storage.ErrUnavailable)
}

// refusingTable fails the first write. Later writes take until their time ends.
type refusingTable struct {
	storage.Table
	writes int
}

func (t *refusingTable) Apply(ctx context.Context, muts []storage.RowMutation) error {
	err := errInjectedOutage
	if t.writes++; t.writes > 1 {
		<-ctx.Done()
		err = ctx.Err()
	}
	failed := &storage.ApplyError{}
	for n := range muts {
		failed.Rows = append(failed.Rows, storage.RowError{Index: n, Err: err})
	}
	return failed
}

// TestDirectNamesTheCause: the time of a write ends during a retry. The error names the cause of the retries.
func TestDirectNamesTheCause(t *testing.T) {
	n := newDirectWorld(t, 1, 1).nodes[0]
	n.data = &refusingTable{Table: n.data}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := n.applyAll(ctx, []storage.RowMutation{{Key: []byte("a")}})
	require.ErrorIs(t, err, errInjectedOutage)
	require.ErrorContains(t, err, "1 of 1 rows could not be written in time")
}

// TestDirectHourThatLeaves: cleaning removes an hour from the index while a server does not refresh. The server
// announces the hour again when it writes to it.
func TestDirectHourThatLeaves(t *testing.T) {
	w := newDirectWorld(t, 1, 2)
	a, b := w.nodes[0], w.nodes[1]
	write := func(tsMs int64) {
		_, err := a.Write(t.Context(), ingest.SamplesInput([]ingest.Sample{{Labels: seriesLabels(1), TsMs: tsMs, Value: 1}}))
		require.NoError(t, err)
	}
	earlierMs := int64(startMs - 2*keyschema.HourMs)
	write(earlierMs)
	write(startMs)
	_, err := b.DeleteSeries(t.Context(), deletion.Request{
		Selectors: [][]*labels.Matcher{{labels.MustNewMatcher(labels.MatchEqual, "n", "1")}}, FromMs: earlierMs, ToMs: startMs,
	})
	require.NoError(t, err)
	write(startMs - keyschema.HourMs) // a does not know the deletion yet, and announces the earlier hour, too
	w.clock.Advance(w.nodes[0].compactor.Delay() + time.Minute)
	report, err := b.CleanTombstones(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, report.Waiting, "not all of its rows are due, so it is not dropped")
	known := func(n *Direct) int {
		found, err := n.Index().Select(t.Context(), nil, earlierMs, earlierMs)
		require.NoError(t, err)
		return len(found)
	}
	require.Zero(t, known(w.start()), "the earlier hour has left")
	write(earlierMs)
	require.Equal(t, 1, known(w.start()))
}

// TestDirectGuard: a server stops writing to tables that it no longer owns.
func TestDirectGuard(t *testing.T) {
	w := newDirectWorld(t, 1, 1)
	n := w.nodes[0]
	guard := errInjectedOutage
	n.opts.Guard = func(context.Context) error { return guard }
	write := func() error {
		_, err := n.Write(t.Context(), ingest.SamplesInput([]ingest.Sample{{Labels: seriesLabels(1), TsMs: startMs, Value: 1}}))
		return err
	}
	require.Error(t, n.refresh(t.Context()))
	require.NoError(t, write(), "an outage passes")
	guard = errors.New("taken over")
	require.Error(t, n.refresh(t.Context()))
	require.ErrorContains(t, write(), "taken over")
	guard = nil
	require.NoError(t, n.refresh(t.Context()))
	require.NoError(t, write())
}

// TestSequenceOfServers: no two servers get the same number, even if reservations fail.
func TestSequenceOfServers(t *testing.T) {
	w := newDirectWorld(t, 3, 3)
	w.depth, w.faults = 1, true // writes fail, and no other server works during them
	given := map[uint32]bool{}
	for range 4000 {
		n := w.nodes[w.rng.IntN(len(w.nodes))]
		above := uint32(0)
		for n := range given { // any number so far
			above = n
			break
		}
		count := 1 + w.rng.IntN(200)
		first, err := n.sequence.AllocateAbove(t.Context(), count, above)
		require.NoError(t, err)
		require.True(t, first > above || len(given) == 0)
		for k := range uint32(count) {
			require.False(t, given[first+k])
			given[first+k] = true
		}
	}
}

// logger writes the log lines of servers to the test's output, if HALITE_SEED replays a seed.
func (w *directWorld) logger() *slog.Logger {
	if os.Getenv("HALITE_SEED") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(w.t.Output(), nil))
}

// TestDirectStoresFloatsOnly writes all kinds of samples: floats are stored, the others are refused by reason.
func TestDirectStoresFloatsOnly(t *testing.T) {
	w := newDirectWorld(t, 1, 1)
	ls := labels.FromStrings("__name__", "m")
	result, err := w.nodes[0].Write(context.Background(), ingest.SamplesInput([]ingest.Sample{
		{Labels: ls, TsMs: startMs, Value: 1, StartMs: startMs - 1, Exemplars: []exemplar.Exemplar{{TsMs: startMs}}},
		{Labels: ls, TsMs: startMs + 1, H: &histogram.Histogram{}},
	}))
	require.NoError(t, err)
	require.Equal(t, 1, result.Accepted)
	require.Zero(t, result.Histograms+result.Exemplars)
	require.Equal(t, map[string]int{ingest.ReasonUnsupportedHist: 1, ingest.ReasonUnsupportedExemplar: 1}, result.Reasons)
	require.Equal(t, "series m{}: unsupported_exemplar: exemplars are unsupported in mode direct", result.First)
	for _, n := range w.nodes {
		require.NoError(t, n.Close(context.Background()))
	}
}
