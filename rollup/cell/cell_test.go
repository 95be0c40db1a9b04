package cell

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/rollup"
	"halite/rollup/rolluptest"
)

var testRow, testQualifier = []byte("up#03#job=node#99328"), []byte{5, 's'}

func TestCellRoundTrip(t *testing.T) {
	rng := rolluptest.Seeded(t)
	var e Encoder
	var d Decoder
	var c rollup.Columns
	for range 4000 {
		fromMs := rng.Int64N(20_000) * rolluptest.DayMs
		states := rolluptest.Day(rng, fromMs)
		cell, err := e.Append(nil, testRow, testQualifier, fromMs, rolluptest.HourMs, rollup.FieldsAll, states)
		require.NoError(t, err)
		c.Reset(fromMs-3*rolluptest.HourMs, rolluptest.HourMs, 30, rollup.FieldsAll)
		stored, err := d.Decode(&c, testRow, testQualifier, cell, fromMs, 24)
		require.NoError(t, err)
		require.Equal(t, rollup.FieldsAll, stored)
		for h, want := range states {
			require.True(t, c.Known[h+3])
			require.Equal(t, rolluptest.Bits(want), rolluptest.Bits(c.State(h+3)), "hour %d of %+v, got %+v", h, want, c.State(h+3))
		}
		require.Equal(t, []bool{false, false, false}, c.Known[:3])
		require.Equal(t, []bool{false, false, false}, c.Known[27:])
	}
}

// TestCellKeepsNegativeZero: negative zero is not a decimal, so it keeps its bits among decimals.
func TestCellKeepsNegativeZero(t *testing.T) {
	zero := math.Copysign(0, -1)
	for _, values := range [][]float64{{zero}, {1, zero}, {zero, 1}, {2.5, zero, 1}} {
		states := make([]rollup.State, 24)
		for h := range states {
			states[h] = rollup.Compute([]int64{int64(h) * rolluptest.HourMs}, []float64{values[h%len(values)]})
		}
		cell, err := new(Encoder).Append(nil, testRow, testQualifier, 0, rolluptest.HourMs, rollup.FieldsAll, states)
		require.NoError(t, err)
		var c rollup.Columns
		c.Reset(0, rolluptest.HourMs, 24, rollup.FieldsAll)
		_, err = new(Decoder).Decode(&c, testRow, testQualifier, cell, 0, 24)
		require.NoError(t, err)
		for h, want := range states {
			require.Equal(t, rolluptest.Bits(want), rolluptest.Bits(c.State(h)), "hour %d of %v", h, values)
		}
	}
}

// TestCellOfSomeFields stores random fields and decodes other random fields. The fields in both sets must come back.
func TestCellOfSomeFields(t *testing.T) {
	rng := rolluptest.Seeded(t)
	var e Encoder
	var d Decoder
	for range 3000 {
		states := rolluptest.Day(rng, 0)
		stored := rollup.Fields(rng.IntN(int(rollup.FieldsAll) + 1))
		wanted := rollup.Fields(rng.IntN(int(rollup.FieldsAll) + 1))
		cell, err := e.Append(nil, testRow, testQualifier, 0, rolluptest.HourMs, stored, states)
		require.NoError(t, err)
		var c rollup.Columns
		c.Reset(0, rolluptest.HourMs, 24, wanted)
		got, err := d.Decode(&c, testRow, testQualifier, cell, 0, 24)
		require.NoError(t, err)
		require.Equal(t, stored, got)
		both := stored & wanted
		for h := range states {
			want, got := rolluptest.Only(states[h], both), rolluptest.Only(c.State(h), both)
			require.Equal(t, rolluptest.Bits(want), rolluptest.Bits(got), "hour %d, fields %x of %x", h, wanted, stored)
		}
	}
}

func TestDecodeRejectsDamageAndOtherPlaces(t *testing.T) {
	rng := rolluptest.Seeded(t)
	var e Encoder
	var d Decoder
	var c rollup.Columns
	states := rolluptest.Day(rng, 0)
	cell, err := e.Append(nil, testRow, testQualifier, 0, rolluptest.HourMs, rollup.FieldsAll, states)
	require.NoError(t, err)
	refused := func(row, qualifier, cell []byte) {
		t.Helper()
		c.Reset(0, rolluptest.HourMs, 24, rollup.FieldsAll)
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

func TestAppendRejectsImpossibleStates(t *testing.T) {
	var e Encoder
	good := rollup.State{Count: 2, FirstMs: 5, LastMs: 9}
	for name, spoil := range map[string]func(*rollup.State){
		"negative count":   func(s *rollup.State) { s.Count = -1 },
		"before":           func(s *rollup.State) { s.FirstMs = -1 },
		"after":            func(s *rollup.State) { s.LastMs = rolluptest.HourMs },
		"backwards":        func(s *rollup.State) { s.LastMs = 4 },
		"too many":         func(s *rollup.State) { s.Count = 6 },
		"more NaN":         func(s *rollup.State) { s.NaNs = 3 },
		"negative changes": func(s *rollup.State) { s.Changes = -1 },
	} {
		s := good
		spoil(&s)
		_, err := e.Append(nil, testRow, testQualifier, 0, rolluptest.HourMs, rollup.FieldsAll, []rollup.State{s})
		require.ErrorIs(t, err, ErrInvalidStates, name)
	}
	_, err := e.Append(nil, testRow, testQualifier, 0, rolluptest.HourMs, rollup.FieldsAll, make([]rollup.State, 32))
	require.ErrorIs(t, err, ErrInvalidStates)
	_, err = e.Append(nil, testRow, testQualifier, 0, rolluptest.HourMs, rollup.FieldsAll, nil)
	require.ErrorIs(t, err, ErrInvalidStates)
	_, err = e.Append(nil, testRow, testQualifier, 0, rolluptest.HourMs, rollup.FieldsAll, []rollup.State{good})
	require.NoError(t, err)
}

func FuzzDecode(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	var e Encoder
	for range 20 {
		cell, err := e.Append(nil, nil, nil, 0, rolluptest.HourMs, rollup.FieldsAll, rolluptest.Day(rng, 0))
		require.NoError(f, err)
		f.Add(cell[:len(cell)-checksumBytes])
	}
	f.Fuzz(func(t *testing.T, cell []byte) {
		sum := checksum(nil, nil, cell)
		cell = append(slices.Clone(cell), byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
		var d Decoder
		var c rollup.Columns
		c.Reset(0, rolluptest.HourMs, 24, rollup.FieldsAll)
		stored, err := d.Decode(&c, nil, nil, cell, 0, 24)
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			require.False(t, slices.Contains(c.Known, true))
			return
		}
		states := make([]rollup.State, 24)
		for h := range states {
			states[h] = rolluptest.Only(c.State(h), stored)
			if s := states[h]; min(s.NaNs, s.Resets, s.Changes) < 0 || max(s.NaNs, s.Resets, s.Changes) > s.Count {
				return // no samples give such a state, and Append rejects it
			}
		}
		// A state that can be decoded can be encoded, and then decodes to the same bits.
		again, err := e.Append(nil, nil, nil, 0, rolluptest.HourMs, stored, states)
		require.NoError(t, err)
		c.Reset(0, rolluptest.HourMs, 24, rollup.FieldsAll)
		_, err = d.Decode(&c, nil, nil, again, 0, 24)
		require.NoError(t, err)
		for h, want := range states {
			require.Equal(t, rolluptest.Bits(want), rolluptest.Bits(rolluptest.Only(c.State(h), stored)))
		}
	})
}
