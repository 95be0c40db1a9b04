package retention_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/retention"
	"halite/storage/storagetest"
)

// wantKept checks that each metric has exactly its expected days.
func wantKept(t *testing.T, s storage.Store, ages *keyschema.RetentionByMetric) {
	t.Helper()
	for tier, family := range map[keyschema.Tier][2]string{
		keyschema.Raw: {storage.TableData, storage.FamilySamples}, keyschema.Hours: {storage.TableRollup, storage.FamilyHours},
	} {
		got := cells(t, s, family[0], family[1])
		for _, metric := range metrics {
			first := max(today-9, ages.ForMetric(metric)[tier].CutoffMs(now().UnixMilli())/storage.DayMs)
			for day := int64(today - 9); day <= today; day++ {
				require.Equal(t, day >= first, got[metric][day] > 0, "%s of %s of day %d, kept from %d", tier, metric, day, first)
			}
		}
	}
}

func TestSweepDropsWhatIsTooOld(t *testing.T) {
	for name, open := range map[string]func() storage.Store{
		"pebble": func() storage.Store { return openStore(t, vfs.NewMem()) },
		"any":    func() storage.Store { return storagetest.NewModel(now) }, // which does not know its days
	} {
		t.Run(name, func(t *testing.T) {
			ctx, s := context.Background(), open()
			ages := agesOf(t, 0, map[string]int{"debug_*": 2, "*_debug": 4, "debug_b": 6})
			fill(t, s, ages)
			before := cells(t, s, storage.TableData, storage.FamilySamples)
			days := checksum(t, s, storage.TableRollup, storage.FamilyDays)
			sweeper := newSweeper(t, s, ages)
			freed, err := sweeper.Sweep(ctx)
			require.NoError(t, err)
			wantKept(t, s, ages)
			gone := int64(0)
			for metric, byDay := range before {
				for day, n := range byDay {
					if day < ages.ForMetric(metric)[keyschema.Raw].CutoffMs(now().UnixMilli())/storage.DayMs {
						gone += int64(n)
					}
				}
			}
			require.GreaterOrEqual(t, freed.Rows, gone)
			require.Positive(t, freed.Ranges)
			require.Equal(t, days, checksum(t, s, storage.TableRollup, storage.FamilyDays))
			again, err := sweeper.Sweep(ctx)
			require.NoError(t, err)
			require.Zero(t, again)
			// A shorter retention of one rule changes no bit of the other data.
			hours := checksum(t, s, storage.TableRollup, storage.FamilyHours)
			one := keyschema.AgeMin
			schema, err := keyschema.NewSchema([]keyschema.Rule{{Pattern: "keep", Retention: &keyschema.RuleRetention{Raw: &one}}})
			require.NoError(t, err)
			shorter, err := schema.Retention(keyschema.RetentionByTier{})
			require.NoError(t, err)
			_, err = newSweeper(t, s, shorter).Sweep(ctx)
			require.NoError(t, err)
			require.Len(t, cells(t, s, storage.TableData, storage.FamilySamples)["keep"], 2)
			require.Equal(t, hours, checksum(t, s, storage.TableRollup, storage.FamilyHours))
			require.Equal(t, days, checksum(t, s, storage.TableRollup, storage.FamilyDays))
			require.NoError(t, s.Close())
		})
	}
}

// TestSweepOfTenant: the retention of a tenant drops rows of all its metrics, and no row of another tenant. It takes
// precedence over a pattern of metrics of all tenants.
func TestSweepOfTenant(t *testing.T) {
	mine := []string{"&acme&keep", "&acme&debug_a"}
	others := []string{"keep", "&acmecorp&keep", "&beta&keep"}
	before := metrics
	t.Cleanup(func() { metrics = before })
	metrics = append(append([]string{"&beta&debug_a", "debug_a"}, mine...), others...)
	s := openStore(t, vfs.NewMem())
	ages := agesOf(t, 0, map[string]int{"debug_*": 2, "&acme&*": 4})
	fill(t, s, ages)
	_, err := newSweeper(t, s, ages).Sweep(t.Context())
	require.NoError(t, err)
	wantKept(t, s, ages)
	left := cells(t, s, storage.TableData, storage.FamilySamples)
	for _, metric := range mine {
		require.Len(t, left[metric], 5, "%s: four days and a part of a day", metric)
	}
	for _, metric := range others {
		require.Len(t, left[metric], 10, metric)
	}
	for _, metric := range []string{"debug_a", "&beta&debug_a"} {
		require.Len(t, left[metric], 3, metric)
	}
	require.NoError(t, s.Close())
}

// TestPolicyLeavesOtherFamilies changes the longest age of samples, in both directions. The other families do not change.
func TestPolicyLeavesOtherFamilies(t *testing.T) {
	ctx, fs := context.Background(), vfs.NewMem()
	s := openStore(t, fs)
	fill(t, s, agesOf(t, 0, nil))
	var sums [2]uint64
	for i, family := range []string{storage.FamilyHours, storage.FamilyDays} {
		sums[i] = checksum(t, s, storage.TableRollup, family)
	}
	raw := checksum(t, s, storage.TableData, storage.FamilySamples)
	for _, days := range []int{4, 20} {
		require.NoError(t, s.Close())
		s = openStore(t, fs)
		_, err := s.EnsureTable(ctx, storage.DataSchema(time.Duration(days)*24*time.Hour))
		require.NoError(t, err)
		require.NoError(t, s.CollectGarbage(ctx))
		for i, family := range []string{storage.FamilyHours, storage.FamilyDays} {
			require.Equal(t, sums[i], checksum(t, s, storage.TableRollup, family))
		}
		require.NotEqual(t, raw, checksum(t, s, storage.TableData, storage.FamilySamples))
	}
	require.NoError(t, s.Close())
}

func TestNeededDaysStay(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	ages := agesOf(t, 0, map[string]int{"debug_*": 2})
	fill(t, s, ages)
	needed := int64(today - 6)
	sweeper, err := retention.New(retention.Options{Store: s, Retention: keyschema.NewRetention(ages), Now: now, Grace: -1,
		Needed: func(tier keyschema.Tier) (int64, bool) { return needed, tier == keyschema.Raw }})
	require.NoError(t, err)
	for _, first := range []int64{today - 6, today - 4, today - 2} {
		needed = first
		_, err = sweeper.Sweep(context.Background())
		require.NoError(t, err)
		require.Zero(t, cells(t, s, storage.TableData, storage.FamilySamples)["debug_a"][first-1])
		require.Positive(t, cells(t, s, storage.TableData, storage.FamilySamples)["debug_a"][first])
		require.Len(t, cells(t, s, storage.TableRollup, storage.FamilyHours)["debug_a"], 3)
	}
	require.NoError(t, s.Close())
}

func TestCosts(t *testing.T) {
	ctx, s := context.Background(), openStore(t, vfs.NewMem())
	ages := agesOf(t, 0, map[string]int{"debug_*": 8, "*_debug": 4, "debug_b": 6, "none": 3})
	fill(t, s, ages)
	five := 5 * keyschema.AgeMin
	try := retention.Change{Pattern: "debug_*", Retention: [keyschema.TierCount]*keyschema.Age{&five}}
	costs, err := retention.Costs(ctx, s, ages, now(), try)
	require.NoError(t, err)
	sum := int64(0)
	for _, c := range costs {
		if c.Tier != "raw" {
			continue
		}
		sum += c.Bytes
		switch c.Pattern {
		case "none":
			require.Zero(t, c.Bytes)
			require.Zero(t, c.OldestMs)
		case "debug_*":
			require.EqualValues(t, (today-9)*storage.DayMs, c.OldestMs)
			require.Less(t, c.HiddenBytes, c.FreedBytes)
			require.Less(t, c.FreedBytes, c.Bytes)
			require.Equal(t, five, c.NewAge)
		case "*":
			require.Zero(t, c.HiddenBytes)
			require.Zero(t, c.FreedBytes)
			require.Positive(t, c.BytesPerDay)
		default:
			require.Positive(t, c.HiddenBytes)
			require.Equal(t, c.HiddenBytes, c.FreedBytes)
		}
	}
	table, err := s.Table(ctx, storage.TableData)
	require.NoError(t, err)
	whole, err := table.(storage.SpanTable).SpanBytes(ctx, storage.CellSpan{Family: storage.FamilySamples,
		Rows: []storage.RowRange{{}}, ToDay: today + 1})
	require.NoError(t, err)
	require.InEpsilon(t, whole, sum, 0.1, "parts of %d bytes sum up to %d", whole, sum)

	short, day, week := keyschema.Age(time.Hour), keyschema.AgeMin, 7*keyschema.AgeMin
	for _, try := range []retention.Change{
		{Pattern: "nobody"}, {Retention: [keyschema.TierCount]*keyschema.Age{&short}},
		{Retention: [keyschema.TierCount]*keyschema.Age{&week, &day}},
		{Pattern: "debug_*", Retention: [keyschema.TierCount]*keyschema.Age{nil, &day}}, // kept shorter than samples
		{Pattern: "none", Retention: [keyschema.TierCount]*keyschema.Age{nil, nil, &day}},
	} {
		_, err := retention.Costs(ctx, s, ages, now(), try)
		require.ErrorIs(t, err, retention.ErrBadChange)
	}
	// A tier that the rule omits is kept as long as the previous tier.
	long := 100 * keyschema.AgeMin
	try = retention.Change{Pattern: "debug_*", Retention: [keyschema.TierCount]*keyschema.Age{&long}}
	costs, err = retention.Costs(ctx, s, ages, now(), try)
	require.NoError(t, err)
	for _, c := range costs {
		if c.Pattern == "debug_*" {
			require.True(t, c.NewAge == 0 || c.NewAge >= long, "%+v", c)
		} else {
			require.Equal(t, c.Age, c.NewAge, "%+v", c)
		}
	}
	require.NoError(t, s.Close())
}

func TestServerAgesAreRemembered(t *testing.T) {
	ctx, s := context.Background(), storagetest.NewModel(now)
	_, found, err := retention.ServerRetention(ctx, s)
	require.NoError(t, err)
	require.False(t, found)
	want := keyschema.RetentionByTier{5 * keyschema.AgeMin, 0, keyschema.AgeMin}
	require.NoError(t, retention.StoreServerRetention(ctx, s, want))
	got, found, err := retention.ServerRetention(ctx, s)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, want, got)
}

// TestOneServerSweeps: if two servers share tables, only the server that MaySweep selects sweeps, also after MaySweep
// changes.
func TestOneServerSweeps(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	defer func() { require.NoError(t, s.Close()) }()
	ages := agesOf(t, 30, map[string]int{"debug_*": 2})
	fill(t, s, ages)
	before := checksum(t, s, storage.TableData, storage.FamilySamples)
	var sweeper atomic.Int32
	var calls [2]atomic.Int32
	for n := range calls {
		sweeper, err := retention.New(retention.Options{Store: s, Retention: keyschema.NewRetention(ages), Now: now,
			Interval: time.Hour, Share: 1,
			CheckInterval: time.Millisecond, MaySweep: func() bool { calls[n].Add(1); return sweeper.Load() == int32(n)+1 }})
		require.NoError(t, err)
		sweeper.Start()
		defer sweeper.Close()
	}
	require.Eventually(t, func() bool { return calls[0].Load() > 2 && calls[1].Load() > 2 }, time.Minute, time.Millisecond)
	require.Equal(t, before, checksum(t, s, storage.TableData, storage.FamilySamples), "no server may sweep")
	sweeper.Store(2)
	require.Eventually(t, func() bool { return checksum(t, s, storage.TableData, storage.FamilySamples) != before },
		time.Minute, 5*time.Millisecond)
}
