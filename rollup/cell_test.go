package rollup

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	hourMs = int64(3_600_000)
	dayMs  = 24 * hourMs
)

var testRow, testQualifier = []byte("up#03#job=node#99328"), []byte{5, 's'}

// bitsOf makes states comparable bit by bit.
func bitsOf(s State) [15]uint64 {
	b := math.Float64bits
	stale := uint64(0)
	if s.Stale {
		stale = 1
	}
	return [15]uint64{
		uint64(s.Count) | stale<<63, uint64(s.NaNs), uint64(s.FirstMs), uint64(s.LastMs), b(s.First), b(s.Last), b(s.Correction),
		uint64(s.Resets), uint64(s.Changes), b(s.Sum), b(s.SumLow), b(s.Min), b(s.Max), b(s.Mean), b(s.M2),
	}
}

// day makes the hour states of a random day: gaps, jitter, several kinds of values.
func day(rng *rand.Rand, fromMs int64) []State {
	states := make([]State, 24)
	special := rng.IntN(4) == 0
	gaps, few := rng.IntN(3) == 0, rng.IntN(4) == 0
	for h := range states {
		if gaps && rng.IntN(3) == 0 {
			continue
		}
		n := rng.IntN(100)
		if few {
			n = rng.IntN(3)
		}
		tsMs, values := column(rng, n, special)
		shift := fromMs + int64(h)*hourMs - 1_700_000_000_000 - 1
		for i := range tsMs {
			tsMs[i] += shift
		}
		switch rng.IntN(3) {
		case 0:
			states[h] = FromColumns(tsMs, values)
		default:
			states[h] = Compute(tsMs, values)
		}
		if states[h].Count == 0 {
			states[h] = State{Stale: states[h].Stale}
		}
	}
	return states
}

func TestCellRoundTrip(t *testing.T) {
	rng := seeded(t)
	var e Encoder
	var d Decoder
	var c Columns
	for range 4000 {
		fromMs := rng.Int64N(20_000) * dayMs
		states := day(rng, fromMs)
		cell, err := e.Append(nil, testRow, testQualifier, fromMs, hourMs, FieldsAll, states)
		require.NoError(t, err)
		c.Reset(fromMs-3*hourMs, hourMs, 30, FieldsAll)
		stored, err := d.Decode(&c, testRow, testQualifier, cell, fromMs, 24)
		require.NoError(t, err)
		require.Equal(t, FieldsAll, stored)
		for h, want := range states {
			require.True(t, c.Known[h+3])
			require.Equal(t, bitsOf(want), bitsOf(c.State(h+3)), "hour %d of %+v, got %+v", h, want, c.State(h+3))
		}
		require.Equal(t, []bool{false, false, false}, c.Known[:3])
		require.Equal(t, []bool{false, false, false}, c.Known[27:])
	}
}

// TestCellKeepsNegativeZero: among values that are decimals otherwise, it is none.
func TestCellKeepsNegativeZero(t *testing.T) {
	zero := math.Copysign(0, -1)
	for _, values := range [][]float64{{zero}, {1, zero}, {zero, 1}, {2.5, zero, 1}} {
		states := make([]State, 24)
		for h := range states {
			states[h] = Compute([]int64{int64(h) * hourMs}, []float64{values[h%len(values)]})
		}
		cell, err := new(Encoder).Append(nil, testRow, testQualifier, 0, hourMs, FieldsAll, states)
		require.NoError(t, err)
		var c Columns
		c.Reset(0, hourMs, 24, FieldsAll)
		_, err = new(Decoder).Decode(&c, testRow, testQualifier, cell, 0, 24)
		require.NoError(t, err)
		for h, want := range states {
			require.Equal(t, bitsOf(want), bitsOf(c.State(h)), "hour %d of %v", h, values)
		}
	}
}

// TestCellOfSomeFields stores and asks for random fields: what both have must come back, whatever else is missing.
func TestCellOfSomeFields(t *testing.T) {
	rng := seeded(t)
	var e Encoder
	var d Decoder
	for range 3000 {
		states := day(rng, 0)
		stored := Fields(rng.IntN(int(FieldsAll) + 1))
		wanted := Fields(rng.IntN(int(FieldsAll) + 1))
		cell, err := e.Append(nil, testRow, testQualifier, 0, hourMs, stored, states)
		require.NoError(t, err)
		var c Columns
		c.Reset(0, hourMs, 24, wanted)
		got, err := d.Decode(&c, testRow, testQualifier, cell, 0, 24)
		require.NoError(t, err)
		require.Equal(t, stored, got)
		both := stored & wanted
		for h := range states {
			require.Equal(t, bitsOf(only(states[h], both)), bitsOf(only(c.State(h), both)), "hour %d, fields %x of %x", h, wanted, stored)
		}
	}
}

// only keeps some fields.
func only(s State, f Fields) State {
	out := State{Count: s.Count, FirstMs: s.FirstMs, LastMs: s.LastMs}
	keep := func(field Fields, copy func()) {
		if f.Has(field) {
			copy()
		}
	}
	keep(FieldEdges, func() { out.First, out.Last = s.First, s.Last })
	keep(FieldNaNs, func() { out.NaNs = s.NaNs })
	keep(FieldMin, func() { out.Min = s.Min })
	keep(FieldMax, func() { out.Max = s.Max })
	keep(FieldSum, func() { out.Sum, out.SumLow = s.Sum, s.SumLow })
	keep(FieldCounter, func() { out.Correction, out.Resets = s.Correction, s.Resets })
	keep(FieldChanges, func() { out.Changes = s.Changes })
	keep(FieldMoments, func() { out.Mean, out.M2 = s.Mean, s.M2 })
	keep(FieldStale, func() { out.Stale = s.Stale })
	return out
}

func TestCellRefusesWhatIsNotItsOwn(t *testing.T) {
	rng := seeded(t)
	var e Encoder
	var d Decoder
	var c Columns
	states := day(rng, 0)
	cell, err := e.Append(nil, testRow, testQualifier, 0, hourMs, FieldsAll, states)
	require.NoError(t, err)
	refused := func(row, qualifier, cell []byte) {
		t.Helper()
		c.Reset(0, hourMs, 24, FieldsAll)
		_, err := d.Decode(&c, row, qualifier, cell, 0, 24)
		require.ErrorIs(t, err, ErrCorrupt)
		require.False(t, slices.Contains(c.Known, true))
	}
	refused(append(slices.Clone(testRow), 'x'), testQualifier, cell)
	refused(testRow, []byte{6, 's'}, cell)
	for i := range cell {
		bad := slices.Clone(cell)
		bad[i] ^= 1 << rng.IntN(8)
		refused(testRow, testQualifier, bad)
		refused(testRow, testQualifier, cell[:i])
	}
}

func TestAppendRefusesImpossibleStates(t *testing.T) {
	var e Encoder
	good := State{Count: 2, FirstMs: 5, LastMs: 9}
	for name, spoil := range map[string]func(*State){
		"negative count":   func(s *State) { s.Count = -1 },
		"before":           func(s *State) { s.FirstMs = -1 },
		"after":            func(s *State) { s.LastMs = hourMs },
		"backwards":        func(s *State) { s.LastMs = 4 },
		"too many":         func(s *State) { s.Count = 6 },
		"more NaN":         func(s *State) { s.NaNs = 3 },
		"negative changes": func(s *State) { s.Changes = -1 },
	} {
		s := good
		spoil(&s)
		_, err := e.Append(nil, testRow, testQualifier, 0, hourMs, FieldsAll, []State{s})
		require.ErrorIs(t, err, ErrBadStates, name)
	}
	_, err := e.Append(nil, testRow, testQualifier, 0, hourMs, FieldsAll, make([]State, 32))
	require.ErrorIs(t, err, ErrBadStates)
	_, err = e.Append(nil, testRow, testQualifier, 0, hourMs, FieldsAll, nil)
	require.ErrorIs(t, err, ErrBadStates)
	_, err = e.Append(nil, testRow, testQualifier, 0, hourMs, FieldsAll, []State{good})
	require.NoError(t, err)
}

func FuzzDecode(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	var e Encoder
	for range 20 {
		cell, err := e.Append(nil, nil, nil, 0, hourMs, FieldsAll, day(rng, 0))
		require.NoError(f, err)
		f.Add(cell[:len(cell)-checksumBytes])
	}
	f.Fuzz(func(t *testing.T, cell []byte) {
		sum := checksum(nil, nil, cell)
		cell = append(slices.Clone(cell), byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
		var d Decoder
		var c Columns
		c.Reset(0, hourMs, 24, FieldsAll)
		stored, err := d.Decode(&c, nil, nil, cell, 0, 24)
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			require.False(t, slices.Contains(c.Known, true))
			return
		}
		states := make([]State, 24)
		for h := range states {
			states[h] = only(c.State(h), stored)
			if s := states[h]; min(s.NaNs, s.Resets, s.Changes) < 0 || max(s.NaNs, s.Resets, s.Changes) > s.Count {
				return // no samples give such a state, and Append refuses it
			}
		}
		// What is readable can be written and reads the same.
		again, err := e.Append(nil, nil, nil, 0, hourMs, stored, states)
		require.NoError(t, err)
		c.Reset(0, hourMs, 24, FieldsAll)
		_, err = d.Decode(&c, nil, nil, again, 0, 24)
		require.NoError(t, err)
		for h, want := range states {
			require.Equal(t, bitsOf(want), bitsOf(only(c.State(h), stored)))
		}
	})
}
