package aggregation_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/query/opentsdb/aggregation"
	"halite/storage/storagetest/seeds"
)

// TestEqualsModel compares random queries over random series with the model of OpenTSDB, bit for bit.
func TestEqualsModel(t *testing.T) {
	t.Parallel()
	first, count := seeds.New(t, seeds.Default{Full: 4000, Short: 400})
	shown, integers, interpolated := 0, 0, 0
	for seed := first; seed != first+count; seed++ {
		c := newCase(rand.New(rand.NewPCG(seed, 1)))
		want := modelResult(&c.spec, c.series)
		got, some := c.evaluate()
		shown += len(want)
		if len(want) > 0 && want[0].whole {
			integers++
		}
		if some {
			interpolated++
		}
		require.Equal(t, texts(want), texts(got), "HALITE_SEED=%d\n%+v\n%v", seed, c.spec, c.series)
	}
	if count >= 400 { // fewer cases may not cover all of it
		require.Greater(t, shown, int(count))
		require.Greater(t, integers, int(count/20))
		require.Greater(t, interpolated, int(count/10))
	}
}

// texts formats points so that NaN equals NaN, and 0 differs from -0.
func texts(points []point) []string {
	out := make([]string, 0, len(points))
	for _, p := range points {
		if p.whole {
			out = append(out, fmt.Sprintf("%d: %d", p.tsMs, p.long))
			continue
		}
		bits := math.Float64bits(p.real)
		if math.IsNaN(p.real) {
			bits = 0
		}
		out = append(out, fmt.Sprintf("%d: %g %x", p.tsMs, p.real, bits))
	}
	return out
}

// randomCase is a query and the series that it reads.
type randomCase struct {
	spec   spec
	series [][]point
	chunks int // samples come in this many slices at most
	rng    *rand.Rand
}

func pick[T any](rng *rand.Rand, list ...T) T { return list[rng.IntN(len(list))] }

func newCase(rng *rand.Rand) *randomCase {
	names := aggregation.NewAggregators().Names()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	kathmandu, err := time.LoadLocation("Asia/Kathmandu")
	if err != nil {
		panic(err)
	}
	c := &randomCase{rng: rng, chunks: 1 + rng.IntN(3)}
	s := &c.spec
	*s = spec{aggregator: pick(rng, names...), zone: pick(rng, time.UTC, berlin, kathmandu), counterMax: math.MaxInt64}
	// The last Sundays of March and October are among the days, where clocks change.
	base := pick(rng, time.Date(2024, 3, 31, 0, 0, 0, 0, time.UTC), time.Date(2023, 10, 29, 0, 0, 0, 0, time.UTC),
		time.Date(2024, 12, 31, 20, 0, 0, 0, time.UTC), time.Date(2001, 9, 9, 1, 0, 0, 0, time.UTC)).UnixMilli()
	spanMs := pick[int64](rng, 10_000, 600_000, 7_200_000, 40*864e5)
	s.start = base + rng.Int64N(1+spanMs)
	s.end = s.start + rng.Int64N(1+spanMs)
	if rng.IntN(2) == 0 {
		c.downsampling(spanMs, names)
	}
	if rng.IntN(3) == 0 {
		c.rate()
	}
	c.addSeries(base, spanMs)
	return c
}

func (c *randomCase) downsampling(spanMs int64, names []string) {
	rng, s := c.rng, &c.spec
	for s.function = "none"; s.function == "none"; {
		s.function = pick(rng, names...)
	}
	s.all, s.calendar = rng.IntN(8) == 0, rng.IntN(3) == 0
	s.fill = pick(rng, "", "", "nan", "null", "zero")
	units := []string{"h", "d", "w", "n", "y"}
	switch {
	case spanMs < 100_000:
		units = []string{"ms", "s", "m"}
	case spanMs < 1_000_000:
		units = []string{"s", "m", "h"}
	case spanMs < 10_000_000:
		units = []string{"m", "h", "d"}
	}
	s.unit = pick(rng, units...)
	s.count = pick(rng, 1, 1, 2, 3, 5, 7, 15, 23, 30)
	if s.unit == "ms" {
		s.count *= 100
	}
	if s.unit == "y" {
		s.count = 1 + rng.IntN(2)
	}
}

func (c *randomCase) rate() {
	rng, s := c.rng, &c.spec
	s.rate, s.counter, s.drop = true, rng.IntN(2) == 0, rng.IntN(4) == 0
	if rng.IntN(2) == 0 {
		s.counterMax = pick[int64](rng, 255, 65535, 1<<32)
	}
	if rng.IntN(3) == 0 {
		s.reset = pick[int64](rng, 1, 10, 1000)
	}
}

// addSeries adds series around the query's range. They have gaps, and they share some of their times.
func (c *randomCase) addSeries(base, spanMs int64) {
	rng := c.rng
	whole := rng.IntN(2) == 0
	steps := pick[int64](rng, 1, 10, 60)
	stepMs := max(1, 3*spanMs/pick[int64](rng, 20, 50, 100)/steps*steps)
	for range 1 + rng.IntN(5) {
		var points []point
		ts := base - rng.Int64N(spanMs+1)
		aligned, jitter := rng.IntN(3) > 0, rng.IntN(2) == 0
		if aligned {
			ts -= ts % stepMs
		}
		level := rng.Int64N(200) - 100
		for range rng.IntN(60) {
			ts += stepMs
			if rng.IntN(6) == 0 {
				ts += stepMs * rng.Int64N(5)
			}
			at := ts
			if jitter && !aligned {
				at += rng.Int64N(stepMs)
				ts = at
			}
			level += rng.Int64N(21) - 8
			points = append(points, c.point(at, level, whole))
		}
		c.series = append(c.series, points)
	}
	c.setIntegers()
}

// setIntegers tells the model which points are integers. A rate looks at two values at a time. Otherwise all values of a group
// decide.
func (c *randomCase) setIntegers() {
	for _, points := range c.series {
		group := c.series
		if c.spec.aggregator == "none" {
			group = [][]point{points}
		}
		fraction := c.hasFraction(group)
		for i := range points {
			v := points[i].double()
			whole := !fraction
			if c.spec.rate {
				whole = aggregation.IsInteger(v)
			}
			points[i] = point{tsMs: points[i].tsMs, whole: whole, long: int64(v), real: v}
		}
	}
}

func (c *randomCase) point(tsMs, level int64, whole bool) point {
	rng := c.rng
	if whole {
		if rng.IntN(200) == 0 {
			level = pick[int64](rng, 1<<53-1, -(1<<53 - 1), 1<<40)
		}
		return point{tsMs: tsMs, whole: true, long: level}
	}
	v := float64(level) + rng.Float64()
	if rng.IntN(4) == 0 {
		v = float64(level) / 4
	}
	return point{tsMs: tsMs, real: v}
}

// hasFraction reports whether a value in the range that the query reads is not an integer.
func (c *randomCase) hasFraction(group [][]point) bool {
	for _, points := range group {
		for _, p := range points {
			if p.tsMs >= 1000*c.spec.scanStart() && p.tsMs < 1000*c.spec.scanEnd() && !aggregation.IsInteger(p.double()) {
				return true
			}
		}
	}
	return false
}

// evaluate returns the result of the package.
func (c *randomCase) evaluate() (out []point, interpolated bool) {
	s, all := &c.spec, aggregation.NewAggregators()
	var down *aggregation.Downsampling
	if s.function != "" {
		units := []string{"ms", "s", "m", "h", "d", "w", "n", "y"}
		down = &aggregation.Downsampling{
			Function: all[s.function], All: s.all, Count: s.count, Unit: aggregation.Unit(slices.Index(units, s.unit)),
			Calendar: s.calendar, Zone: s.zone,
			Fill: map[string]aggregation.Fill{
				"": aggregation.FillNothing, "nan": aggregation.FillNaN, "null": aggregation.FillNull, "zero": aggregation.FillZero,
			}[s.fill],
		}
	}
	var rate *aggregation.Rate
	if s.rate {
		rate = &aggregation.Rate{Counter: s.counter, CounterMax: s.counterMax, ResetValue: s.reset, DropResets: s.drop}
	}
	within := aggregation.RangeOf(s.start, s.end, down)
	g := aggregation.Group{Aggregator: all[s.aggregator], Downsampled: down != nil, Rate: s.rate}
	groups := []aggregation.Group{}
	for _, points := range c.series {
		p, ok := c.transformed(points, down, rate, within)
		if !ok {
			continue
		}
		g.Series = append(g.Series, p)
		if s.aggregator == "none" {
			groups = append(groups, g)
			g.Series = nil
		}
	}
	if len(g.Series) > 0 {
		groups = append(groups, g)
	}
	for _, g := range groups {
		a := g.Aggregate(s.start, s.end)
		interpolated = interpolated || a.Interpolated
		for i, ts := range a.TsMs {
			p := point{tsMs: ts, whole: a.Integers != nil}
			if p.whole {
				p.long = a.Integers[i]
			} else {
				p.real = a.Doubles[i]
			}
			out = append(out, p)
		}
	}
	return out, interpolated
}

// transformed passes the samples in the range that the query reads through a Transform, in slices.
func (c *randomCase) transformed(
	points []point, down *aggregation.Downsampling, rate *aggregation.Rate, within aggregation.Range,
) (aggregation.Points, bool) {
	var in aggregation.Points
	for _, p := range points {
		if p.tsMs >= within.ReadFromMs && p.tsMs <= within.ReadToMs {
			in.TsMs, in.Values = append(in.TsMs, p.tsMs), append(in.Values, p.double())
		}
	}
	if in.Len() == 0 {
		return in, false
	}
	t := aggregation.NewTransform(down, rate, within)
	for left := c.chunks; in.Len() > 0; left-- {
		n := in.Len()
		if left > 1 {
			n = c.rng.IntN(n + 1)
		}
		t.Add(in.TsMs[:n], in.Values[:n])
		in.TsMs, in.Values = in.TsMs[n:], in.Values[n:]
	}
	return t.Points(), true
}
