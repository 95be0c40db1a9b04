package report

import (
	"fmt"
	"halite/loadtest/measure"
	"maps"
	"slices"
	"strings"
	"time"
)

func interruptedText(interrupted bool) string {
	if interrupted {
		return ", interrupted"
	}
	return ""
}

func flushedText(d *measure.DiskUsage) string {
	if d.FlushedBytes == 0 {
		return ""
	}
	return " → " + mib(d.FlushedBytes) + " MiB flushed"
}

func disorderText(l *Load) string {
	var parts []string
	for _, x := range []struct {
		percent float64
		name    string
	}{
		{l.OutOfOrderPercent, "out of order"}, {l.LatePercent, "late"}, {l.RewrittenPercent, "rewritten"},
		{l.ChurnPercent, "of hosts replaced every few steps"},
	} {
		if x.percent > 0 {
			parts = append(parts, fmt.Sprintf("%g%% %s", x.percent, x.name))
		}
	}
	if l.Shuffled {
		parts = append(parts, "shuffled")
	}
	if len(parts) == 0 {
		return ""
	}
	return "; " + strings.Join(parts, ", ")
}

// intervalText formats an interval in seconds. A step of a load without an interval ends when each series has a sample.
func intervalText(s float64) string {
	if s == 0 {
		return "step"
	}
	return time.Duration(s * 1e9).Round(time.Millisecond).String()
}

func countsText(counts map[string]int64) string {
	if len(counts) == 0 {
		return "none"
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s × %s", k, Grouped(counts[k])))
	}
	return strings.Join(parts, ", ")
}

func seconds1(s float64) string { return fmt.Sprintf("%.1f s", s) }

// ms formats milliseconds with about three significant digits.
func ms(x float64) string {
	switch {
	case x < 10:
		return fmt.Sprintf("%.2f", x)
	case x < 100:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

func mib(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<20)) }

// Grouped formats a number with commas between groups of three digits.
func Grouped(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
