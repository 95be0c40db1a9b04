package presence

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpans(t *testing.T) {
	spans := AppendSpans(nil, 10, 0b111)
	require.Equal(t, []Span{{First: 240, Last: 242}}, spans)
	spans = AppendSpans(spans, 10, 1<<23|1<<5)
	require.Equal(t, []Span{{First: 240, Last: 242}, {First: 245, Last: 245}, {First: 263, Last: 263}}, spans)
	spans = AppendSpans(spans, 11, HoursMask)
	require.Equal(t, []Span{{First: 240, Last: 242}, {First: 245, Last: 245}, {First: 263, Last: 287}}, spans)
	require.Equal(t, []Span{{First: 1, Last: 7}, {First: 9, Last: 9}},
		Normalize([]Span{{First: 4, Last: 7}, {First: 9, Last: 9}, {First: 1, Last: 5}}))
	require.Equal(t, uint32(0b1100), HoursWithin(10, 242, 243))
	require.Equal(t, uint32(HoursMask), HoursWithin(10, 0, 1000))
	require.Zero(t, HoursWithin(10, 264, 1000))
}
