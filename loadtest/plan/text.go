package plan

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteText writes a plan as text.
func (p *Plan) WriteText(w io.Writer) error {
	l := &p.Load
	fmt.Fprintf(w, "%s series, one sample every %s: %s samples/s, %s per day. Retention of samples %s",
		count(float64(l.Series)), l.Interval, count(p.SamplesPerSecond), count(p.SamplesPerDay), days(l.Raw))
	if l.Hours > 0 {
		fmt.Fprintf(w, ", of rollups of hours %s", days(l.Hours))
	}
	if l.Days > 0 {
		fmt.Fprintf(w, ", of rollups of days %s", days(l.Days))
	}
	fmt.Fprintf(w, ".\nChurn %g %% per day, %d cluster(s). A packed row (one series and hour) has %.0f bytes.\n\n", l.ChurnPercent,
		l.Replicas, p.RowBytes)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, value func(*Mode) string) {
		cells := []string{name}
		for i := range p.Modes {
			cells = append(cells, value(&p.Modes[i]))
		}
		fmt.Fprintln(t, strings.Join(cells, "\t")+"\t")
	}
	row("", func(m *Mode) string { return m.Name })
	row("rows/s written, mean", func(m *Mode) string { return count(m.RowsPerSecond) })
	row("rows/s written during a flush", func(m *Mode) string { return count(m.PeakRowsPerSecond) })
	row("cells/s written, mean", func(m *Mode) string { return count(m.CellsPerSecond) })
	row("bytes/s written, mean", func(m *Mode) string { return bytes(m.BytesPerSecond) })
	row("bytes/s of requests, mean", func(m *Mode) string { return bytes(m.WireBytesPerSecond) })
	row("rows/s read", func(m *Mode) string { return count(m.ReadRowsPerSecond) })
	row("stored: samples", func(m *Mode) string { return bytes(m.Storage.SampleBytes) })
	row("stored: cells not packed yet", func(m *Mode) string { return bytes(m.Storage.UnpackedBytes) })
	row("stored: rollups", func(m *Mode) string { return bytes(m.Storage.HoursBytes + m.Storage.DaysBytes) })
	row("stored: series index", func(m *Mode) string { return bytes(m.Storage.IndexBytes) })
	row("stored: total", func(m *Mode) string { return bytes(m.Storage.TotalBytes) })
	row("nodes for writing", func(m *Mode) string { return strconv.Itoa(m.Nodes.Writing) })
	row("nodes for reading", func(m *Mode) string { return strconv.Itoa(m.Nodes.Reading) })
	row("nodes for storage", func(m *Mode) string { return strconv.Itoa(m.Nodes.Storing) })
	row("nodes in all clusters", func(m *Mode) string { return strconv.Itoa(m.Nodes.Total) })
	row("tablets that a flush writes to", func(m *Mode) string {
		if m.FlushTablets == 0 {
			return "-"
		}
		return strconv.Itoa(int(m.FlushTablets))
	})
	if p.Modes[0].MonthlyCost > 0 {
		row("cost per month", func(m *Mode) string { return count(m.MonthlyCost) })
	}
	if err := t.Flush(); err != nil {
		return err
	}
	n := &p.Limits
	_, err := fmt.Fprintf(w, "\nStored bytes are per cluster, before compression. They include a week of expired data that "+
		"the service may keep.\nCapacity of a node: %s written or %s read rows of 1 KB per second, %s/s scanned, %s stored. "+
		"The plan uses %g %% of it. %s series fill a tablet.\n", count(n.RowWritesPerSecond), count(n.RowReadsPerSecond),
		bytes(n.ScanBytesPerSecond), bytes(n.StorageBytes), 100*n.Utilization, count(math.Floor(p.TabletSeries)))
	return err
}

// WriteBalances writes the results of a simulation as text.
func WriteBalances(w io.Writer, s Simulation, balances []Balance) error {
	s = s.withDefaults()
	fmt.Fprintf(w, "%s series of %s metrics sized by Zipf's law (exponent %g) on %d nodes, seed %d. Load of the fullest node "+
		"over the mean:\n\n", count(float64(s.Series)), count(float64(s.Metrics)), s.Exponent, s.Nodes, s.Seed)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "salts\tlargest range\tunsplit, at random\tunsplit, balanced\ttablets\tsplit, at random\tsplit, balanced\t"+
		"nodes with the largest metric\t")
	for _, b := range balances {
		fmt.Fprintf(t, "%d\t%.2f %%\t%.2f\t%.2f\t%d\t%.2f\t%.3f\t%d\t\n", b.Salts, 100*b.LargestShare, b.Unsplit.RandomMaxOverMean,
			b.Unsplit.BalancedMaxOverMean, b.Tablets, b.Split.RandomMaxOverMean, b.Split.BalancedMaxOverMean, b.QueryNodes)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nUnsplit: the series of a metric and salt are one tablet. "+
		"Split: tablets above %s series split in half.\n",
		count(s.TabletSeries))
	return err
}

// count formats a number with commas between groups of three digits.
func count(v float64) string {
	if v == 0 {
		return "-"
	}
	if v < 10 && v != math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// bytes formats a size with three significant digits and a decimal unit.
func bytes(v float64) string {
	if v == 0 {
		return "-"
	}
	units := []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}
	i := 0
	for ; v >= 999.5 && i < len(units)-1; i++ {
		v /= 1000
	}
	return strconv.FormatFloat(v, 'f', max(0, 2-int(math.Log10(max(v, 1)))), 64) + " " + units[i]
}

func days(d time.Duration) string { return strconv.FormatFloat(d.Hours()/24, 'f', -1, 64) + " d" }
