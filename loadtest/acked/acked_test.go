package acked

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOutcomes(t *testing.T) {
	s := New(130)
	s.Acknowledge([]WriteID{{0, 0}, {129, 2}, {64, 2 | SecondWrite}})
	s.MarkInDoubt([]WriteID{{64, 2}, {65, 2}})
	require.Equal(t, Outcome{First: true}, s.Outcome(0, 0))
	require.Equal(t, Outcome{First: true}, s.Outcome(129, 2))
	require.Equal(t, Outcome{Second: true, InDoubt: true}, s.Outcome(64, 2))
	require.Equal(t, Outcome{InDoubt: true}, s.Outcome(65, 2))
	for _, none := range [][2]int{{1, 0}, {0, 1}, {128, 2}, {0, 99}} {
		require.Equal(t, Outcome{}, s.Outcome(none[0], none[1]))
	}
}
