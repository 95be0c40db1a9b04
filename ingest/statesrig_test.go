package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest/deletion"
	"halite/ingest/ingesttest"
	"halite/keyschema"
	"halite/rollup"
	"halite/rollup/job"
	rollupstore "halite/rollup/store"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/pebble"
	"halite/storage/retention"
	"halite/storage/tombstone"
)

// statesRig is a rig with states of hours and days and a sweeper. It keeps states longer than samples. Jobs run only when a
// test calls them.
type statesRig struct {
	*rig
	tiers   *job.Rollups
	sweeper *retention.Sweeper
	ages    *keyschema.RetentionByMetric
	set     *tombstone.Set
}

const ageDay = keyschema.Age(24 * time.Hour)

// randomAges makes rules that keep some metrics for a shorter time than others.
func randomAges(rng *rand.Rand) (rules []keyschema.Rule) {
	for n := range 3 {
		raw := ageDay * keyschema.Age(1+rng.IntN(2))
		hours := raw + ageDay*keyschema.Age(rng.IntN(3))
		if n == 2 || rng.IntN(2) == 0 {
			rules = append(rules, keyschema.Rule{Pattern: fmt.Sprint("m", n),
				Retention: &keyschema.RuleRetention{Raw: &raw, Hours: &hours}})
		}
	}
	return rules
}

// statesAges keeps samples for two days and hours for four, if no rule says otherwise.
func statesAges(rules []keyschema.Rule) (*keyschema.Schema, *keyschema.RetentionByMetric, error) {
	schema, err := keyschema.NewSchema(rules)
	if err != nil {
		return nil, nil, err
	}
	ages, err := schema.Retention(keyschema.RetentionByTier{2 * ageDay, 4 * ageDay, 0})
	return schema, ages, err
}

func openStates(t testing.TB, fs vfs.FS, c *ingesttest.Clock, rules ...keyschema.Rule) (*statesRig, error) {
	ctx := context.Background()
	store, err := pebble.Open(pebble.Options{Dir: "/db/data", FS: fs, CacheBytes: 1 << 20, MemtableBytes: 256 << 10, Now: c.Now})
	if err != nil {
		return nil, err
	}
	r := &statesRig{rig: &rig{t: t, fs: fs, clock: c, store: store}}
	if err := r.open(ctx, rules, store); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return r, nil
}

func (r *statesRig) open(ctx context.Context, rules []keyschema.Rule, store storage.Store) (err error) {
	now := r.clock.Now
	if r.schema, r.ages, err = statesAges(rules); err != nil {
		return err
	}
	if r.set, err = tombstone.Open(ctx, tombstone.Options{Store: store}); err != nil {
		return err
	}
	ages := keyschema.NewRetention(r.ages)
	r.tiers, err = job.Open(ctx, rollupstore.Options{
		Tables: r.set.Store(), Deletions: r.set, Retention: ages, MarksMax: 5, Now: now,
	}, job.Options{Settle: -1, Share: 1, BatchBytes: 500})
	if err != nil {
		return err
	}
	r.store = r.tiers.Invalidating(r.set.Store())
	r.sweeper, err = retention.New(retention.Options{
		Store: store, Retention: ages, Needed: r.tiers.OldestNeeded, Now: now, Share: 1, Grace: -1,
	})
	if err != nil {
		return err
	}
	if _, err := r.store.EnsureTable(ctx, storage.DataSchema(time.Duration(r.ages.Longest()[keyschema.Raw]))); err != nil {
		return err
	}
	r.index, err = index.Open(ctx, index.Options{Store: r.store, Schema: r.schema, Now: now, CacheBytesMax: 1 << 20,
		Retention: ages.Tier(keyschema.Days)})
	if err != nil {
		return err
	}
	opts := Options{
		Dir: "/db/wal", FS: r.fs, Store: r.store, Index: r.index, Schema: r.schema, Now: now, WALCommitDelay: -1,
		Tombstones: r.set, States: r.tiers, Retention: ages.Tier(keyschema.Raw),
	}
	crashTweak(&opts)
	if r.Ingester, err = Open(ctx, opts); err != nil {
		return err
	}
	r.set.SetLabelSets(r.index.LabelSet)
	return nil
}

// statesModel knows which data must exist and which may exist, for series whose samples expire before their states.
type statesModel struct {
	*deletionModel
	// stated has, by series, the hours whose states must equal the states of the model's samples. All these samples
	// were in the tables when the job ran.
	stated []map[int64]bool
	// statedDays has the same for days.
	statedDays []map[int64]bool
	// taken has, by tier and series, the first hour that every age so far has kept. Ages change with each restart.
	taken *[keyschema.TierCount]map[int]int64
}

func (m *statesModel) clone() *statesModel {
	out := &statesModel{deletionModel: m.deletionModel.clone(), taken: m.taken}
	for _, t := range m.stated {
		out.stated = append(out.stated, maps.Clone(t))
	}
	for _, t := range m.statedDays {
		out.statedDays = append(out.statedDays, maps.Clone(t))
	}
	return out
}

// kept is the first hour that a tier keeps of a series, under the current age and all earlier ones.
func (m *statesModel) kept(r *statesRig, n int, tier keyschema.Tier) int64 {
	cutoffMs := r.ages.ForMetric(m.labels[n].Get(model.MetricNameLabel))[tier].CutoffMs(r.clock.Now().UnixMilli())
	// A row lives until its last millisecond expires, a cell of hours until the last millisecond of its day.
	first := cutoffMs / keyschema.HourMs
	if tier != keyschema.Raw {
		first = cutoffMs / dayMs * keyschema.DayHours
	}
	m.taken[tier][n] = max(m.taken[tier][n], first)
	return m.taken[tier][n]
}

// delete removes samples. An hour with only a state left becomes empty if a part of it is deleted.
func (m *statesModel) delete(r *statesRig, d deletion.Request) {
	for n := range m.labels {
		if !matches(d, m.labels[n]) {
			continue
		}
		for hour := range m.stated[n] {
			s := m.state(n, keyschema.HourStartMs(hour), keyschema.HourCellMs(hour))
			if hour < m.kept(r, n, keyschema.Raw) && s.FirstMs <= d.ToMs && s.LastMs >= d.FromMs {
				delete(m.stated[n], hour)
			}
		}
		for day := range m.statedDays[n] {
			if s := m.state(n, day*dayMs, day*dayMs+dayMs-1); s.FirstMs <= d.ToMs && s.LastMs >= d.FromMs {
				delete(m.statedDays[n], day)
			}
		}
	}
	m.deletionModel.delete(d)
}

// dropStates removes the states of the hour and day of a sample.
func (m *statesModel) dropStates(n int, tsMs int64) {
	delete(m.stated[n], keyschema.HourOf(tsMs))
	delete(m.statedDays[n], tsMs/dayMs)
}

// state is the state of the model's samples of an hour.
func (m *statesModel) state(n int, fromMs, toMs int64) rollup.State {
	var tsMs []int64
	var values []float64
	for ts := range m.columns[n] {
		if fromMs <= ts && ts <= toMs {
			tsMs = append(tsMs, ts)
		}
	}
	slices.Sort(tsMs)
	for _, ts := range tsMs {
		values = append(values, math.Float64frombits(m.columns[n][ts]))
	}
	return rollup.Compute(tsMs, values)
}

// check compares samples, states and lists with the model. worked means that the job has nothing left to do.
func (m *statesModel) check(r *statesRig, from, to int64, worked bool) {
	r.t.Helper()
	for n, ls := range m.labels {
		m.checkSamples(r, n, ls)
		m.checkStates(r, n, from, to, worked)
	}
	m.checkLists(r, from, to)
}

func (m *statesModel) checkSamples(r *statesRig, n int, ls labels.Labels) {
	r.t.Helper()
	got, err := r.read(ls)
	require.NoError(r.t, err)
	kept := m.kept(r, n, keyschema.Raw)
	for ts, bits := range got {
		want, there := m.columns[n][ts]
		require.True(r.t, there, "%s at %d is deleted, its hour %d is kept from %d on", ls, ts, keyschema.HourOf(ts), kept)
		require.Equal(r.t, want, bits)
	}
	for ts := range m.columns[n] {
		_, there := got[ts]
		require.True(r.t, there || keyschema.HourOf(ts) < kept, "%s at %d is missing", ls, ts)
	}
}

func (r *statesRig) states(
	ls labels.Labels, unit rollupstore.Unit, from, to int64, each func(bucket int64, known bool, s rollup.State),
) {
	r.t.Helper()
	metric, tags := deletion.TagsOf(ls)
	prefix := r.schema.RuleAt(metric, from).AppendPrefix(nil, metric, tags)
	req := rollupstore.Request{Prefixes: [][]byte{prefix}, Unit: unit, From: from, To: to, Fields: rollup.FieldsAll}
	require.NoError(r.t, r.tiers.Read(context.Background(), req, func(_ int, c *rollup.Columns) error {
		for i := range c.Len() {
			each(from+int64(i), c.Known[i], c.State(i))
		}
		return nil
	}))
}

// headHours returns the hours in which a series has samples in memory.
func (r *statesRig) headHours(ls labels.Labels) map[int64]bool {
	r.t.Helper()
	var ms []*labels.Matcher
	ls.Range(func(l labels.Label) { ms = append(ms, labels.MustNewMatcher(labels.MatchEqual, l.Name, l.Value)) })
	found, err := r.index.Select(context.Background(), nil, 0, math.MaxInt64/2, ms...)
	require.NoError(r.t, err)
	hours := map[int64]bool{}
	for _, s := range found {
		samples, err := r.readHead(s.Ref)
		require.NoError(r.t, err)
		for ts := range samples {
			hours[keyschema.HourOf(ts)] = true
		}
	}
	return hours
}

func (m *statesModel) checkStates(r *statesRig, n int, from, to int64, worked bool) {
	r.t.Helper()
	keptRaw, keptHours := m.kept(r, n, keyschema.Raw), m.kept(r, n, keyschema.Hours)
	closed := (r.clock.Now().UnixMilli()-int64(30*time.Minute/time.Millisecond))/dayMs*keyschema.DayHours - 1
	inHead := r.headHours(m.labels[n])
	r.states(m.labels[n], rollupstore.Hours, from, to, func(hour int64, known bool, s rollup.State) {
		want := m.state(n, keyschema.HourStartMs(hour), keyschema.HourCellMs(hour))
		switch {
		case inHead[hour]: // readers use the samples in the head
		case !known:
			must := worked && hour <= closed && hour >= keptHours && want.Count > 0 && (hour >= keptRaw || m.stated[n][hour])
			require.False(r.t, must, "state of hour %d of %s is missing; raw is kept from %d on", hour, m.labels[n], keptRaw)
		case hour >= keptRaw || m.stated[n][hour]:
			require.Equal(r.t, want, s, "hour %d of %s, raw is kept from %d on", hour, m.labels[n], keptRaw)
			m.stated[n][hour] = true
		default:
			m.requirePart(r, n, s, keyschema.HourStartMs(hour), keyschema.HourCellMs(hour))
		}
	})
	first, last := from/keyschema.DayHours, to/keyschema.DayHours
	r.states(m.labels[n], rollupstore.Days, first, last, func(day int64, known bool, s rollup.State) {
		want := m.state(n, day*dayMs, day*dayMs+dayMs-1)
		if !known {
			require.False(r.t, worked && m.statedDays[n][day], "state of day %d of %s is missing", day, m.labels[n])
			return
		}
		m.requirePart(r, n, s, day*dayMs, day*dayMs+dayMs-1)
		same := s.Count == want.Count && s.FirstMs == want.FirstMs && s.LastMs == want.LastMs && s.Min == want.Min && s.Max == want.Max
		require.True(r.t, same || !m.statedDays[n][day], "day %d of %s: want %+v, got %+v", day, m.labels[n], want, s)
		m.statedDays[n][day] = same && s.Count > 0
	})
}

// requirePart demands that a state contains no deleted samples.
func (m *statesModel) requirePart(r *statesRig, n int, s rollup.State, fromMs, toMs int64) {
	r.t.Helper()
	if s.Count == 0 {
		return
	}
	whole := m.state(n, fromMs, toMs)
	require.LessOrEqual(r.t, s.Count, whole.Count, "%s from %d", m.labels[n], fromMs)
	for ts, v := range map[int64]float64{s.FirstMs: s.First, s.LastMs: s.Last} {
		bits, there := m.columns[n][ts]
		require.True(r.t, there && bits == math.Float64bits(v), "%s from %d has a state of %d, deleted", m.labels[n], fromMs, ts)
	}
	values := map[float64]bool{}
	for ts, bits := range m.columns[n] {
		values[math.Float64frombits(bits)] = values[math.Float64frombits(bits)] || fromMs <= ts && ts <= toMs
	}
	require.True(r.t, values[s.Min] && values[s.Max], "%s from %d has a state of deleted values", m.labels[n], fromMs)
}

// checkLists checks each hour. Series with samples or a state are listed. Series whose samples are all deleted are not, unless a
// deletion is pending.
func (m *statesModel) checkLists(r *statesRig, from, to int64) {
	r.t.Helper()
	found, err := r.index.Select(context.Background(), nil, keyschema.HourStartMs(from), keyschema.HourCellMs(to))
	require.NoError(r.t, err)
	pending, _ := deletion.Pending(r.set, r.clock.Now())
	listed := map[string][]index.HourSpan{}
	for _, s := range found {
		listed[s.Labels.String()] = s.Hours
	}
	for n, ls := range m.labels {
		kept, hours := m.kept(r, n, keyschema.Raw), map[int64]bool{}
		for ts := range m.columns[n] {
			hours[keyschema.HourOf(ts)] = true
		}
		for hour := from; hour <= to; hour++ {
			is := slices.ContainsFunc(listed[ls.String()], func(s index.HourSpan) bool { return s.First <= hour && hour <= s.Last })
			require.True(r.t, hours[hour] || !is || len(pending) > 0, "%s is listed in hour %d, raw is kept from %d on", ls, hour, kept)
			stated := hour >= m.kept(r, n, keyschema.Hours) && m.stated[n][hour] || m.statedDays[n][hour/keyschema.DayHours]
			must := hours[hour] && (hour >= kept || stated)
			require.True(r.t, is || !must, "%s is not listed in hour %d, raw is kept from %d on; hour %t, day %t", ls, hour, kept,
				m.stated[n][hour], m.statedDays[n][hour/keyschema.DayHours])
		}
	}
}
