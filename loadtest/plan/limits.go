package plan

import (
	"errors"
	"fmt"
	"math"
)

// Limits are what a node of the service does: figures that the service publishes for SSD nodes, not measured here.
type Limits struct {
	// RowWritesPerSecond and RowReadsPerSecond are for rows of RowBytes; smaller rows count like these.
	RowWritesPerSecond float64 `json:"row_writes_per_second"`
	RowReadsPerSecond  float64 `json:"row_reads_per_second"`
	RowBytes           float64 `json:"row_bytes"`
	// ScanBytesPerSecond is read when rows follow each other.
	ScanBytesPerSecond float64 `json:"scan_bytes_per_second"`
	// StorageBytes is the most that a node holds.
	StorageBytes float64 `json:"storage_bytes"`
	// Utilization is the part of all that, which is to be used.
	Utilization float64 `json:"utilization"`
	// TabletBytes is about where the service splits a tablet.
	TabletBytes float64 `json:"tablet_bytes"`
	// RequestRows and RequestBytes bound a write request of the engine, RequestsInFlight those of one flush.
	RequestRows      float64 `json:"request_rows"`
	RequestBytes     float64 `json:"request_bytes"`
	RequestsInFlight float64 `json:"requests_in_flight"`
}

// ServiceLimits returns the service's published numbers, and the defaults of the engine's requests.
func ServiceLimits() Limits {
	return Limits{
		RowWritesPerSecond: 14_000, RowReadsPerSecond: 17_000, RowBytes: 1 << 10, ScanBytesPerSecond: 220e6,
		StorageBytes: 5e12, Utilization: 0.7, TabletBytes: 5e9,
		RequestRows: 100_000, RequestBytes: 16 << 20, RequestsInFlight: 4,
	}
}

// Validate lists numbers that no node has.
func (l Limits) Validate() error {
	var errs []error
	for name, v := range map[string]float64{
		"row writes": l.RowWritesPerSecond, "row reads": l.RowReadsPerSecond, "row bytes": l.RowBytes,
		"scanned bytes": l.ScanBytesPerSecond, "storage bytes": l.StorageBytes, "tablet bytes": l.TabletBytes,
		"rows of a request": l.RequestRows, "bytes of a request": l.RequestBytes, "requests in flight": l.RequestsInFlight,
	} {
		if !(v > 0) || math.IsInf(v, 0) {
			errs = append(errs, fmt.Errorf("%s of a node: %g is not above 0", name, v))
		}
	}
	if !(l.Utilization > 0 && l.Utilization <= 1) {
		errs = append(errs, fmt.Errorf("utilization: %g is not in 0…1", l.Utilization))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("plan: limits: %w", err)
	}
	return nil
}

// writeNodes are the nodes that take so many rows and bytes a second.
func (l Limits) writeNodes(rows, bytes float64) int {
	return l.nodes(max(rows, bytes/l.RowBytes), l.RowWritesPerSecond)
}

// nodes is demand over what one node may do, rounded up.
func (l Limits) nodes(demand, capacity float64) int {
	return int(math.Ceil(demand / (capacity * l.Utilization)))
}
