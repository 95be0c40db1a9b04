package plan

import (
	"errors"
	"fmt"
	"math"
)

// Limits are the capacities of a node. The service publishes them for SSD nodes; they are not measured here.
type Limits struct {
	// RowWritesPerSecond and RowReadsPerSecond are limits for rows of RowBytes. Smaller rows count like rows of RowBytes.
	RowWritesPerSecond float64 `json:"row_writes_per_second"`
	RowReadsPerSecond  float64 `json:"row_reads_per_second"`
	RowBytes           float64 `json:"row_bytes"`
	// ScanBytesPerSecond is the rate of reading consecutive rows.
	ScanBytesPerSecond float64 `json:"scan_bytes_per_second"`
	// StorageBytes is the capacity of a node.
	StorageBytes float64 `json:"storage_bytes"`
	// Utilization is the share of each capacity to use, up to 1.
	Utilization float64 `json:"utilization"`
	// TabletBytes is the approximate size at which the service splits a tablet.
	TabletBytes float64 `json:"tablet_bytes"`
	// RequestRows and RequestBytes bound a write request of the engine. RequestsInFlight bounds the concurrent requests of
	// a flush.
	RequestRows      float64 `json:"request_rows"`
	RequestBytes     float64 `json:"request_bytes"`
	RequestsInFlight float64 `json:"requests_in_flight"`
}

// ServiceLimits returns the service's published limits and the engine's default limits of requests.
func ServiceLimits() Limits {
	return Limits{
		RowWritesPerSecond: 14_000, RowReadsPerSecond: 17_000, RowBytes: 1 << 10, ScanBytesPerSecond: 220e6,
		StorageBytes: 5e12, Utilization: 0.7, TabletBytes: 5e9,
		RequestRows: 100_000, RequestBytes: 16 << 20, RequestsInFlight: 4,
	}
}

// Validate reports all invalid limits at once.
func (l Limits) Validate() error {
	var errs []error
	for name, v := range map[string]float64{
		"row writes": l.RowWritesPerSecond, "row reads": l.RowReadsPerSecond, "row bytes": l.RowBytes,
		"scanned bytes": l.ScanBytesPerSecond, "storage bytes": l.StorageBytes, "tablet bytes": l.TabletBytes,
		"rows of a request": l.RequestRows, "bytes of a request": l.RequestBytes, "requests in flight": l.RequestsInFlight,
	} {
		if !(v > 0) || math.IsInf(v, 0) {
			errs = append(errs, fmt.Errorf("%s of a node: %g is not a finite number above 0", name, v))
		}
	}
	if !(l.Utilization > 0 && l.Utilization <= 1) {
		errs = append(errs, fmt.Errorf("utilization: %g is not above 0 and at most 1", l.Utilization))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("plan: limits: %w", err)
	}
	return nil
}

// writeNodes returns the number of nodes that can write the given rows and bytes per second.
func (l Limits) writeNodes(rows, bytes float64) int {
	return l.nodes(max(rows, bytes/l.RowBytes), l.RowWritesPerSecond)
}

// nodes returns the number of nodes for a demand, given the capacity of one node.
func (l Limits) nodes(demand, capacity float64) int {
	return int(math.Ceil(demand / (capacity * l.Utilization)))
}
