package main_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDirectDelete: samples that one of two servers deletes disappear from the other's responses at the same moment.
// Later writes at the same times stay. A killed server brings no deleted sample back. Cleaning frees rows and loses no
// sample.
func TestDirectDelete(t *testing.T) {
	startEmulator(t)
	now := time.Now().Truncate(time.Second)
	flags := direct("--web.enable-admin-api", "--bigtable.pack-delay=1s", "--bigtable.pack-interval=50ms", "--bigtable.lease=1s")
	a, b := startServer(t, nowhere(t), flags...), startServer(t, nowhere(t), flags...)
	old := wave("gone", 4, now.Add(-4*time.Hour), now.Add(-2*time.Hour), 30*time.Second)
	fresh := wave("gone", 4, now.Add(-10*time.Minute), now, 30*time.Second)
	all := append(append([]point{}, old...), fresh...)
	a.write(old)
	b.write(fresh)
	eventuallyPoints(t, a, "gone", now, all)
	eventuallyPoints(t, b, "gone", now, all)
	from, to := now.Add(-3*time.Hour).UnixMilli()+1, now.Add(-time.Second).UnixMilli()
	rest := without(all, "host-1", from, to)
	args := []string{"--match", `gone{instance="host-1"}`, "--from", seconds(from), "--to", seconds(to)}
	require.Contains(t, b.mustDelete(append(args, "--dry-run")...),
		fmt.Sprintf("would delete %d samples of 1 series", len(all)-len(rest)))
	a.mustDelete(args...)
	requirePoints(t, b, "gone", now, rest)
	requirePoints(t, a, "gone", now, rest)
	again := without(all, "host-0", 0, now.UnixMilli()) // some of it at deleted times
	again = without(without(again, "host-2", 0, now.UnixMilli()), "host-3", 0, now.UnixMilli())[40:120]
	for i := range again {
		again[i].value = -7
		rest = without(rest, "host-1", again[i].tsMs, again[i].tsMs)
	}
	b.write(again)
	rest = append(rest, again...)
	requirePoints(t, b, "gone", now, rest)
	requirePoints(t, a, "gone", now, rest)

	b.mustDelete("--match", `gone{instance="host-3"}`)
	rest = without(rest, "host-3", 0, now.UnixMilli())
	require.Error(t, a.end(syscall.SIGKILL))
	c := startServer(t, nowhere(t), flags...)
	requirePoints(t, c, "gone", now, rest)
	require.Contains(t, c.metrics(), "tsdb_tombstones 2\n")
	out := ""
	require.Eventually(t, func() bool {
		out = c.mustDelete("--clean")
		return strings.Contains(out, "rows removed: 0, rewritten: 0")
	}, time.Minute, 300*time.Millisecond, "%s", out)
	require.Contains(t, out, "rollups are not computed yet: 2", "the open hour")
	require.JSONEq(t, `["host-0","host-1","host-2"]`, c.labelValues("instance", 0, now.UnixMilli()))
	requirePoints(t, b, "gone", now, rest)
	requirePoints(t, c, "gone", now, rest)
	require.NoError(t, b.end(syscall.SIGTERM), b.log)
	require.NoError(t, c.end(syscall.SIGTERM), c.log)
}
