package ingest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema/exemplar"
)

// Sample is one value of one series: a float, or a native histogram if H or FH is set.
type Sample struct {
	// Labels include __name__.
	Labels labels.Labels
	// TsMs is in milliseconds since 1970.
	TsMs  int64
	Value float64
	// StartMs is the start timestamp in milliseconds since 1970; 0 if the sender did not set it.
	StartMs int64
	H       *histogram.Histogram
	FH      *histogram.FloatHistogram
	// Exemplars are exemplars of the series. Their times are their own.
	Exemplars []exemplar.Exemplar
}

// Counts are numbers of samples by kind.
type Counts struct{ Samples, Histograms, Exemplars int }

// Add adds to the counts.
func (c *Counts) Add(o Counts) {
	c.Samples += o.Samples
	c.Histograms += o.Histograms
	c.Exemplars += o.Exemplars
}

// Plus returns the sums of the counts by kind.
func (c Counts) Plus(o Counts) Counts {
	c.Add(o)
	return c
}

// Sum is the number of samples of all kinds.
func (c Counts) Sum() int { return c.Samples + c.Histograms + c.Exemplars }

// Result is the outcome of a write.
type Result struct {
	// Accepted, Histograms and Exemplars count durable samples. Rejected counts samples that were not stored.
	Accepted, Histograms, Exemplars, Rejected int
	// Dropped counts samples that a relabelling rule drops. Senders count them as written.
	Dropped Counts
	// Deduplicated counts samples that were not stored, because their cluster has elected another replica. Senders count
	// them as written.
	Deduplicated Counts
	// Reasons counts the rejected samples by reason; nil if there are none.
	Reasons map[string]int
	// First describes the first rejection: series and reason.
	First string
	// Omitted counts skipped exemplars of remote write 1.0, start times and metadata by reason. The protocols cannot report
	// them as rejected. It is nil if nothing was skipped.
	Omitted map[string]int
	// NewestMs is the start of the newest sample's minute or hour; 0 if there are no samples.
	NewestMs int64
}

// Add adds the outcome of another write.
func (r *Result) Add(o *Result) {
	r.Accepted += o.Accepted
	r.Histograms += o.Histograms
	r.Exemplars += o.Exemplars
	r.Rejected += o.Rejected
	r.First = cmp.Or(r.First, o.First)
	r.NewestMs = max(r.NewestMs, o.NewestMs)
	addCounts(&r.Reasons, o.Reasons)
	addCounts(&r.Omitted, o.Omitted)
}

func addCounts(to *map[string]int, counts map[string]int) {
	if *to == nil && len(counts) > 0 {
		*to = make(map[string]int)
	}
	for reason, n := range counts {
		(*to)[reason] += n
	}
}

// Summary describes the samples of a request that were not stored: the number for each reason, and the first in full.
func (r *Result) Summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d samples rejected", r.Rejected, r.Rejected+r.Accepted+r.Histograms+r.Exemplars)
	for i, reason := range slices.Sorted(maps.Keys(r.Reasons)) {
		sep := ", "
		if i == 0 {
			sep = " ("
		}
		fmt.Fprintf(&b, "%s%s: %d", sep, reason, r.Reasons[reason])
	}
	if len(r.Reasons) > 0 {
		b.WriteByte(')')
	}
	if r.First != "" {
		b.WriteString("; first: " + r.First)
	}
	return b.String()
}

// Metadata describes a metric.
type Metadata struct{ Type, Help, Unit string }

// Errors of a write. Any other error is unexpected; the sender may retry.
var (
	// ErrTooLarge means that the body, its decoded size or its number of samples is over the limit. The sender must split
	// it.
	ErrTooLarge = errors.New("request too large")
	// ErrClosed means that the ingester is closing or closed.
	ErrClosed = errors.New("ingester is closed")
)

// BadRequestError reports a malformed body. The ingester stored nothing of it. The sender must not repeat it.
type BadRequestError struct {
	Err error
}

func (e *BadRequestError) Error() string { return "bad write request: " + e.Err.Error() }

// Unwrap returns the reason.
func (e *BadRequestError) Unwrap() error { return e.Err }

// OverloadError reports that a resource is short. The ingester stored nothing of the write. The sender repeats it after
// RetryAfter.
type OverloadError struct {
	// Reason names the resource.
	Reason string
	// RetryAfter is random, so that refused senders do not retry all at once.
	RetryAfter time.Duration
}

func (e *OverloadError) Error() string {
	return fmt.Sprintf("overloaded: %s; retry after %s", e.Reason, e.RetryAfter)
}
