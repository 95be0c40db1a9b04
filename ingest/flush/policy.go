package flush

import (
	"time"

	"halite/ingest/head"
	"halite/keyschema"
)

const (
	// idleTicks: a row of a closed hour is due if no sample came for this number of ticks.
	idleTicks = 2
	// patienceTicks: a row of a closed hour is due this number of ticks after its first sample, idle or not.
	patienceTicks = 40
	// backlogShare: late rows are due at once if they use more than this fraction of the head's memory limit.
	backlogShare = 4
)

// rule reports whether a flush takes a row.
type rule func(row head.RowInfo) bool

// everything takes all rows.
func everything(head.RowInfo) bool { return true }

// dueInput is the input of dueRule.
type dueInput struct {
	nowMs int64
	// tick counts flush intervals since the start.
	tick uint32
	// grace is the time after the end of an hour for which its rows wait for late samples.
	grace time.Duration
	// spread is the time over which the rows of one hour are flushed, one partition after the other.
	spread time.Duration
	// partitions is the number of partitions. partitionOf returns the partition of a series, from 0.
	partitions  int
	partitionOf func(ref uint32) int
	// backlog means that late rows use much memory.
	backlog bool
}

// openHour returns the first hour whose rows still wait for samples.
func openHour(nowMs int64, grace time.Duration) int64 {
	return keyschema.HourOf(max(0, nowMs-grace.Milliseconds()))
}

// isLate reports whether a row is late: its hour is older than the last closed hour.
func isLate(row head.RowInfo, open int64) bool { return row.Hour < open-1 }

// hasBacklog reports whether late rows use so much memory that they are flushed at once, even while they still get samples.
func hasBacklog(lateBytes, limitBytes int64) bool { return lateBytes > limitBytes/backlogShare }

// dueRule takes all closed rows, all late rows if there is a backlog, and idle rows of closed hours whose partition is due.
func dueRule(in dueInput) rule {
	open := openHour(in.nowMs, in.grace)
	return func(row head.RowInfo) bool {
		switch {
		case row.Frozen || in.backlog && isLate(row, open):
			return true
		case row.Hour >= open:
			return false
		case in.tick-row.LastTick < idleTicks && in.tick-row.MadeTick < patienceTicks:
			return false
		}
		wait := in.grace + in.spread*time.Duration(in.partitionOf(row.Ref))/time.Duration(in.partitions)
		return keyschema.HourCellMs(row.Hour)+wait.Milliseconds() < in.nowMs
	}
}

// closedRule takes the rows of hours before the current one, and rows that are closed for other reasons.
func closedRule(nowMs int64) rule {
	current := keyschema.HourOf(max(0, nowMs))
	return func(row head.RowInfo) bool { return row.Frozen || row.Hour < current }
}

// needsMemory reports whether the head must shrink. targetBytes is the size down to which it should shrink.
func needsMemory(headBytes, limitBytes int64) (needed bool, targetBytes int64) {
	return headBytes > limitBytes, limitBytes / 4 * 3
}

// largestRule takes the largest rows with at least excessBytes together. sizes[i] is the memory of all rows from 2^(i-1)
// bytes to less than 2^i bytes, see head.Head.BytesByRowSize.
func largestRule(excessBytes int64, sizes []int64) rule {
	exp := len(sizes) - 1
	for ; exp > 0 && excessBytes > sizes[exp]; exp-- {
		excessBytes -= sizes[exp]
	}
	leastBytes := int64(1) << exp / 2
	return func(row head.RowInfo) bool { return row.Bytes >= leastBytes }
}

// logLimit returns the size of the log above which rows are flushed, so that the log can be truncated. It is one segment
// while disk space is low.
func logLimit(maxBytes, segmentBytes int64, lowSpace bool) (limitBytes int64) {
	if lowSpace {
		return min(maxBytes, segmentBytes)
	}
	return maxBytes
}

// segmentRule takes the rows that need a log segment before first.
func segmentRule(first uint64) rule {
	return func(row head.RowInfo) bool { return row.Segment < first }
}
