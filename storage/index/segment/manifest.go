package segment

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"

	"github.com/prometheus/common/model"

	"halite/storage/index/envelope"
	"halite/storage/index/presence"
)

// Manifest is the directory of a segment, held in one cell. A compaction takes effect when it writes that cell. The cell names
// the generation, and only cells of that generation belong to the partition.
type Manifest struct {
	Gen uint32
	// JournalSeq is the number of the first journal record that the generation does not contain.
	JournalSeq uint32
	Series     uint64
	Metrics    uint32
	// Names are the label names besides the metric name, sorted. Values holds the size of the dictionary of each name.
	Names  []string
	Values []uint32
	// Touched is the mask of the hours of the day, or the days of the month, in which any series was active. TouchedNames has
	// the same mask for the series with each label.
	Touched      uint32
	TouchedNames []uint32
	// Blocks are ordered by metric. Metrics are numbered from 1 in the order of their names.
	Blocks []BlockRef
	// Days are the days that a month contains, by the day of the month; nil in a day.
	Days []DayVersion
	// Dropped are the metrics of a day that were dropped after the segment was written, ascending.
	Dropped []uint32
}

// DayVersion is the generation of a day that a month contains, and its number of series. Gen is 0 if the month does not
// contain the day.
type DayVersion struct {
	Gen    uint32
	Series uint64
}

// BlockRef names a block with the metrics from FirstMetric up to the FirstMetric of the next block. A metric with more than
// Layout.BlockRows series has several blocks, numbered by part.
type BlockRef struct {
	FirstMetric uint32
	part        uint32
	Rows        uint32
}

// AppendManifest appends the payload of a manifest.
func AppendManifest(dst []byte, r *Manifest) []byte {
	dst = binary.AppendUvarint(dst, uint64(r.Gen))
	dst = binary.AppendUvarint(dst, uint64(r.JournalSeq))
	dst = binary.AppendUvarint(dst, r.Series)
	dst = binary.AppendUvarint(dst, uint64(r.Metrics))
	dst = binary.AppendUvarint(dst, uint64(r.Touched))
	dst = binary.AppendUvarint(dst, uint64(len(r.Names)))
	for i, n := range r.Names {
		dst = binary.AppendUvarint(envelope.AppendText(dst, n), uint64(r.Values[i]))
		dst = binary.AppendUvarint(dst, uint64(r.TouchedNames[i]))
	}
	dst = binary.AppendUvarint(dst, uint64(len(r.Blocks)))
	last := uint32(0)
	for _, b := range r.Blocks {
		dst = binary.AppendUvarint(dst, uint64(b.FirstMetric-last))
		dst = binary.AppendUvarint(dst, uint64(b.Rows))
		last = b.FirstMetric
	}
	if len(r.Dropped) > 0 {
		return appendDropped(dst, r.Dropped)
	}
	for _, d := range r.Days {
		dst = binary.AppendUvarint(dst, uint64(d.Gen))
		if d.Gen != 0 {
			dst = binary.AppendUvarint(dst, d.Series)
		}
	}
	return dst
}

// EncodeManifest encodes a manifest as the unsealed value of its cell.
func EncodeManifest(r *Manifest) []byte {
	if len(r.Dropped) > 0 {
		return AppendManifest(envelope.New(envelope.FormatV3, 1024), r)
	}
	return AppendManifest(envelope.New(envelope.FormatV2, 1024), r)
}

// ManifestGeneration reads only the generation of a manifest.
func ManifestGeneration(payload []byte) (uint32, error) {
	c := &envelope.Decoder{Rest: payload}
	return c.Number(1<<32 - 1), c.Err
}

// ParseManifest parses the payload of a partition's manifest.
func ParseManifest(payload []byte, format byte, partition presence.Partition) (*Manifest, error) {
	month := partition.IsMonth()
	c := &envelope.Decoder{Rest: payload}
	r := &Manifest{Gen: c.Number(1<<32 - 1), JournalSeq: c.Number(1<<32 - 1), Series: c.Uvarint()}
	r.Metrics = c.Number(1<<32 - 2)
	r.Touched = c.Number(1<<presence.MonthDaysMax - 1)
	names := c.Count(3)
	for i := 0; i < names && c.Err == nil; i++ {
		name := string(c.Text())
		if name == "" || name == model.MetricNameLabel || i > 0 && r.Names[i-1] >= name {
			c.Fail(envelope.ErrOrder)
		}
		r.Names = append(r.Names, name)
		r.Values = append(r.Values, c.Number(1<<32-2))
		r.TouchedNames = append(r.TouchedNames, c.Number(1<<presence.MonthDaysMax-1))
	}
	blocks, last := c.Count(2), uint64(0)
	for i := 0; i < blocks && c.Err == nil; i++ {
		step := c.Uvarint()
		b := BlockRef{FirstMetric: uint32(last + step), Rows: c.Number(rowsMax)}
		if step > uint64(r.Metrics)-last || i == 0 && step != 1 {
			return nil, fmt.Errorf("%w: block %d", envelope.ErrOrder, i)
		}
		if step == 0 {
			b.part = r.Blocks[i-1].part + 1
		}
		last += step
		r.Blocks = append(r.Blocks, b)
	}
	if c.Err == nil && (blocks == 0) != (r.Metrics == 0) {
		c.Fail(envelope.ErrRange)
	}
	if format == envelope.FormatV1 || format == envelope.FormatV3 && month {
		c.Fail(envelope.ErrFormat)
	}
	if format == envelope.FormatV3 {
		r.Dropped = readDropped(c, r.Metrics)
	}
	for i := 0; month && i < presence.MonthDaysMax; i++ {
		d := DayVersion{Gen: c.Number(1<<32 - 1)}
		if d.Gen != 0 {
			d.Series = c.Uvarint()
		}
		r.Days = append(r.Days, d)
	}
	return r, c.End()
}

// Name returns the number of a label name; ok is false if no series of the day has the label.
func (r *Manifest) Name(name string) (int, bool) {
	return slices.BinarySearch(r.Names, name)
}

// BlocksOf returns the numbers [from, to) of the blocks that hold a metric.
func (r *Manifest) BlocksOf(metric uint32) (from, to int) {
	to = sort.Search(len(r.Blocks), func(i int) bool { return r.Blocks[i].FirstMetric > metric })
	for from = to - 1; from > 0 && r.Blocks[from].part > 0; {
		from--
	}
	return from, to
}

// metricRange returns the metrics [from, to) of a block.
func (r *Manifest) metricRange(block int) (from, to uint32) {
	from, to = r.Blocks[block].FirstMetric, r.Metrics+1
	if block+1 < len(r.Blocks) {
		to = r.Blocks[block+1].FirstMetric
	}
	return from, max(to, from+1)
}
