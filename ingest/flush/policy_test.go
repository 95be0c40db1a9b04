package flush

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"halite/ingest/head"
)

// policyHead is the head of TestPolicy, with named rows and limits.
type policyHead struct {
	names      []string
	rows       []head.RowInfo
	partitions map[uint32]int
}

// TestPolicy shows which rows each rule of the policy takes. Times are HH:MM of day 0; row sizes are in bytes.
func TestPolicy(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var h policyHead
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "head":
				h = scanHead(t, d.Input)
				return fmt.Sprintf("%d rows, %d bytes", len(h.rows), h.bytes(everything))
			case "due":
				return h.due(t, d)
			case "memory":
				return h.memory(t, d)
			case "log":
				return h.log(t, d)
			}
			return "unknown command"
		})
	})
}

// scanHead reads lines such as "a hour=7 bytes=100 partition=1 segment=3 made=1 last=2 frozen".
func scanHead(t *testing.T, input string) policyHead {
	h := policyHead{partitions: map[uint32]int{}}
	for n, line := range strings.Split(strings.TrimSpace(input), "\n") {
		words := strings.Fields(line)
		row := head.RowInfo{Ref: uint32(n + 1)}
		for _, word := range words[1:] {
			name, value, _ := strings.Cut(word, "=")
			number := int64(0)
			if value != "" {
				_, err := fmt.Sscan(value, &number)
				require.NoError(t, err, line)
			}
			switch name {
			case "hour":
				row.Hour = number
			case "bytes":
				row.Bytes = number
			case "partition":
				h.partitions[row.Ref] = int(number)
			case "segment":
				row.Segment = uint64(number)
			case "made":
				row.MadeTick = uint32(number)
			case "last":
				row.LastTick = uint32(number)
			case "frozen":
				row.Frozen = true
			default:
				t.Fatalf("unknown field %q in %q", name, line)
			}
		}
		h.names, h.rows = append(h.names, words[0]), append(h.rows, row)
	}
	return h
}

func (h *policyHead) bytes(r rule) (sum int64) {
	for _, row := range h.rows {
		if r(row) {
			sum += row.Bytes
		}
	}
	return sum
}

// remove removes the rows that a rule selects, as a flush does, and returns their names.
func (h *policyHead) remove(r rule) string {
	var taken []string
	for n := 0; n < len(h.rows); {
		if !r(h.rows[n]) {
			n++
			continue
		}
		taken = append(taken, h.names[n])
		h.names, h.rows = slices.Delete(h.names, n, n+1), slices.Delete(h.rows, n, n+1)
	}
	if len(taken) == 0 {
		return "nothing"
	}
	return strings.Join(taken, " ")
}

func timeOf(t *testing.T, d *datadriven.TestData) (ms int64) {
	var text string
	d.ScanArgs(t, "now", &text)
	at, err := time.Parse("15:04", text)
	require.NoError(t, err)
	return int64(at.Hour()*60+at.Minute()) * time.Minute.Milliseconds()
}

// due shows one call of dueRule. The limit of the head is given, so that there may be a backlog.
func (h *policyHead) due(t *testing.T, d *datadriven.TestData) string {
	in := dueInput{nowMs: timeOf(t, d), grace: time.Minute, spread: 5 * time.Minute, partitions: 1}
	limitBytes, tick := int64(math.MaxInt64), 100
	d.MaybeScanArgs(t, "tick", &tick)
	d.MaybeScanArgs(t, "partitions", &in.partitions)
	d.MaybeScanArgs(t, "limit", &limitBytes)
	in.tick, in.partitionOf = uint32(tick), func(ref uint32) int { return h.partitions[ref] }
	open := openHour(in.nowMs, in.grace)
	in.backlog = hasBacklog(h.bytes(func(row head.RowInfo) bool { return isLate(row, open) }), limitBytes)
	return h.remove(dueRule(in))
}

// memory shows the rules that a full head calls for.
func (h *policyHead) memory(t *testing.T, d *datadriven.TestData) string {
	var limitBytes int64
	d.ScanArgs(t, "limit", &limitBytes)
	needed, targetBytes := needsMemory(h.bytes(everything), limitBytes)
	if !needed {
		return "enough memory"
	}
	out := "closed: " + h.remove(closedRule(timeOf(t, d)))
	excessBytes := h.bytes(everything) - targetBytes
	if excessBytes <= 0 {
		return out
	}
	sizes := make([]int64, 32)
	for _, row := range h.rows {
		_, exp := math.Frexp(float64(row.Bytes))
		sizes[exp] += row.Bytes
	}
	return out + "\nlargest: " + h.remove(largestRule(excessBytes, sizes)) +
		fmt.Sprintf("\n%d bytes left, target %d", h.bytes(everything), targetBytes)
}

// log shows the limit of the log, and the rules that a log above it calls for. first is the oldest segment to keep.
func (h *policyHead) log(t *testing.T, d *datadriven.TestData) string {
	var sizeBytes, limitBytes, segmentBytes, first int64
	d.ScanArgs(t, "size", &sizeBytes)
	d.ScanArgs(t, "limit", &limitBytes)
	d.ScanArgs(t, "segment", &segmentBytes)
	d.ScanArgs(t, "first", &first)
	if limit := logLimit(limitBytes, segmentBytes, d.HasArg("low-space")); sizeBytes <= limit {
		return fmt.Sprintf("short enough: limit %d", limit)
	}
	return "closed: " + h.remove(closedRule(timeOf(t, d))) + "\nold segments: " + h.remove(segmentRule(uint64(first)))
}
