package loadtest

import (
	"halite/loadtest/report"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProgressTexts(t *testing.T) {
	bar := drawBar("load", 25, 100, 10*time.Second, "x")
	require.Contains(t, bar, " 25% ETA 30s  x")
	require.Equal(t, barCells/4, strings.Count(bar, "█"))
	require.Equal(t, "load 25% after 10s, ETA 30s: x", statusLine("load", 25, 100, 10*time.Second, "x"))
	require.Equal(t, "load after 10s: x", statusLine("load", 0, 100, 10*time.Second, "x"))
	require.Equal(t, "1,234,567", report.Grouped(1234567))
	require.Equal(t, "-123", report.Grouped(-123))
	require.Equal(t, "12", report.Grouped(12))
}
