package heat

import (
	"fmt"
	"slices"
	"strings"
)

// Metric is a kind of load. The numbers are stored on disk.
type Metric uint8

const (
	// WriteCells counts accepted samples, in the minute of their timestamps.
	WriteCells Metric = iota
	// WriteRows and WriteBytes count writes to the table. With a head these happen at a flush.
	WriteRows
	WriteBytes
	// ReadRows and ReadBytes count the results of reads of the table.
	ReadRows
	ReadBytes
	// ReadNanos is the time of all reads, and ReadNanosMax is the time of the longest one, in nanoseconds.
	ReadNanos
	ReadNanosMax
	// Errors counts reads and writes that failed.
	Errors

	// Metrics is the number of metrics.
	Metrics = int(iota)
)

func names() [Metrics]string {
	return [...]string{
		"write_cells", "write_rows", "write_bytes", "read_rows", "read_bytes", "read_time", "read_time_max", "errors",
	}
}

func (m Metric) String() string { return names()[m] }

// ParseMetric returns the metric with a name of String. The error lists the names.
func ParseMetric(name string) (Metric, error) {
	all := names()
	i := slices.Index(all[:], name)
	if i < 0 {
		return 0, fmt.Errorf("metric %q is unknown; known are %s", name, strings.Join(all[:], ", "))
	}
	return Metric(i), nil
}

// Unit is the unit of the metric in a heat map, such as "cells/s".
func (m Metric) Unit() string {
	return [...]string{"cells/s", "rows/s", "bytes/s", "rows/s", "bytes/s", "s/s", "s", "errors/s"}[m]
}

// IsMax reports whether counts of the metric merge by maximum. All others add up.
func (m Metric) IsMax() bool { return m == ReadNanosMax }

// Counts has a count for each metric.
type Counts [Metrics]float64

// Add adds a share of o, 0 to 1. For maxima it keeps the larger one.
func (c *Counts) Add(o *Counts, share float64) {
	for m, n := range o {
		if n == 0 {
			continue
		}
		if Metric(m).IsMax() {
			c[m] = max(c[m], n)
		} else {
			c[m] += n * share
		}
	}
}
