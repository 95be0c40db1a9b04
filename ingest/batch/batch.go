package batch

import (
	"errors"
	"fmt"
	"unsafe"

	"halite/ingest/remotewrite"
)

// Batch collects the series of a request. The zero value is ready after Reset.
type Batch struct {
	keys       []byte
	series     []extent
	samples    []remotewrite.Sample
	histograms []remotewrite.Histogram
	exemplars  []remotewrite.Exemplar
	metadata   []remotewrite.Metadata
	rejections []Rejection
	labels     Labels
	countEqual bool

	bounds   Bounds
	reserved int
	next     int
}

// Labels appends the label fields of the series with a key to dst, as remote write 1.0 encodes them.
type Labels func(dst, key []byte) ([]byte, error)

// Bounds bound the contents of a request.
type Bounds struct {
	// ItemsMax bounds the number of series, and likewise the number of samples, histograms and exemplars together.
	ItemsMax int
	// Reserve reserves memory. Its error ends the request. If it is nil, no memory is reserved.
	Reserve func(sizeBytes int) error
}

// Rejection describes samples that the parser skipped.
type Rejection struct {
	// Count is the number of samples.
	Count  int
	Reason string
	Detail string
	// Silent is set if the protocol cannot report the rejection to the sender.
	Silent bool
}

// Series is one series of a batch. It is valid until the batch is reset.
type Series struct {
	Key        []byte
	Samples    []remotewrite.Sample
	Histograms []remotewrite.Histogram
	Exemplars  []remotewrite.Exemplar
}

// extent holds where the parts of a series begin. They end where the parts of the next series begin.
type extent struct{ key, samples, histograms, exemplars uint32 }

// ErrTooLarge means that a request holds more than the bounds allow.
var ErrTooLarge = errors.New("too many series or samples")

// keepMax is the largest number of elements whose memory the next request reuses.
const keepMax = 1 << 17

// keysKeepMax is keepMax for the bytes of keys.
const keysKeepMax = 8 << 20

// Reset empties the batch.
func (b *Batch) Reset(bounds Bounds) {
	clear(b.histograms)
	clear(b.exemplars)
	clear(b.metadata)
	if cap(b.keys) > keysKeepMax || max(cap(b.series), cap(b.samples), cap(b.histograms), cap(b.exemplars)) > keepMax {
		*b = Batch{}
	}
	b.keys, b.series, b.samples = b.keys[:0], b.series[:0], b.samples[:0]
	b.histograms, b.exemplars, b.metadata = b.histograms[:0], b.exemplars[:0], b.metadata[:0]
	b.rejections, b.labels, b.countEqual, b.bounds, b.reserved, b.next = nil, nil, false, bounds, 0, 0
}

// SetLabels sets the function that turns keys into labels. Without one, keys are label fields.
func (b *Batch) SetLabels(f Labels) { b.labels = f }

// CountEqual asks the writer to count samples of one series and time as merged.
func (b *Batch) CountEqual() { b.countEqual = true }

// CountsEqual reports whether the parser called CountEqual.
func (b *Batch) CountsEqual() bool { return b.countEqual }

// Begin begins a series. Its key is the concatenation of parts. Samples, histograms and exemplars added next belong to it. The
// error is ErrTooLarge or an error of Reserve.
func (b *Batch) Begin(parts ...[]byte) error {
	if len(b.series) == b.bounds.ItemsMax || b.Count() > b.bounds.ItemsMax {
		return fmt.Errorf("%w: more than %d", ErrTooLarge, b.bounds.ItemsMax)
	}
	b.series = append(b.series, extent{
		uint32(len(b.keys)), uint32(len(b.samples)), uint32(len(b.histograms)), uint32(len(b.exemplars)),
	})
	for _, part := range parts {
		b.keys = append(b.keys, part...)
	}
	return b.reserve()
}

// reserve reserves memory for the growth of the batch. Each step is at least half of the memory reserved so far.
func (b *Batch) reserve() error {
	sizeBytes := len(b.keys) + len(b.series)*int(unsafe.Sizeof(extent{})) + len(b.samples)*int(unsafe.Sizeof(remotewrite.Sample{})) +
		len(b.histograms)*int(unsafe.Sizeof(remotewrite.Histogram{})) + len(b.exemplars)*int(unsafe.Sizeof(remotewrite.Exemplar{}))
	if sizeBytes <= b.reserved {
		return nil
	}
	more := max(sizeBytes-b.reserved, b.reserved/2)
	b.reserved += more
	if b.bounds.Reserve == nil {
		return nil
	}
	return b.bounds.Reserve(more)
}

// Sample adds a sample to the current series of the parser.
func (b *Batch) Sample(s remotewrite.Sample) { b.samples = append(b.samples, s) }

// Histogram adds a native histogram to the current series of the parser. The batch keeps its pointers.
func (b *Batch) Histogram(h remotewrite.Histogram) { b.histograms = append(b.histograms, h) }

// Exemplar adds an exemplar to the current series of the parser.
func (b *Batch) Exemplar(e remotewrite.Exemplar) { b.exemplars = append(b.exemplars, e) }

// Metadata adds the description of a metric.
func (b *Batch) Metadata(m remotewrite.Metadata) { b.metadata = append(b.metadata, m) }

// Reject counts samples that the parser skips.
func (b *Batch) Reject(r Rejection) {
	for n := range b.rejections {
		if at := &b.rejections[n]; at.Reason == r.Reason && at.Silent == r.Silent {
			at.Count += r.Count
			return
		}
	}
	b.rejections = append(b.rejections, r)
}

// Count is the number of samples, histograms and exemplars.
func (b *Batch) Count() int { return len(b.samples) + len(b.histograms) + len(b.exemplars) }

// Descriptions returns the metadata.
func (b *Batch) Descriptions() []remotewrite.Metadata { return b.metadata }

// Rejections returns what the parser skipped: one element for each reason, with the detail of the first.
func (b *Batch) Rejections() []Rejection { return b.rejections }

// Next moves the writer to the next series.
func (b *Batch) Next() bool {
	if b.next == len(b.series) {
		return false
	}
	b.next++
	return true
}

// Mark returns the position of the current series for Rewind.
func (b *Batch) Mark() int { return b.next - 1 }

// Rewind makes Next return the series that was current when Mark returned mark.
func (b *Batch) Rewind(mark int) { b.next = mark }

// Series returns the current series.
func (b *Batch) Series() Series {
	from := b.series[b.next-1]
	to := extent{uint32(len(b.keys)), uint32(len(b.samples)), uint32(len(b.histograms)), uint32(len(b.exemplars))}
	if b.next < len(b.series) {
		to = b.series[b.next]
	}
	return Series{
		Key: b.keys[from.key:to.key:to.key], Samples: b.samples[from.samples:to.samples:to.samples],
		Histograms: b.histograms[from.histograms:to.histograms], Exemplars: b.exemplars[from.exemplars:to.exemplars],
	}
}

// AppendFields appends the label fields of the series with a key to dst.
func (b *Batch) AppendFields(dst, key []byte) ([]byte, error) {
	if b.labels == nil {
		return append(dst, key...), nil
	}
	return b.labels(dst, key)
}
