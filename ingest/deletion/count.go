package deletion

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/keyschema/histchunk"
	rollupstore "halite/rollup/store"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/tombstone"
)

// Count counts the samples that a deletion would delete.
type Count struct {
	// Series counts the series with samples to delete.
	Series int
	// Samples is the number of samples that a query would return.
	Samples int64
	// Bytes is the size of the samples in the data table, or in memory if they are not flushed. It is an estimate if rows
	// also hold other samples.
	Bytes int64
	// Orphans counts rollup states whose samples retention has dropped. The deletion removes them too.
	Orphans rollupstore.Orphans
}

// Add adds the count of another deletion.
func (c *Count) Add(o *Count) {
	c.Series += o.Series
	c.Samples += o.Samples
	c.Bytes += o.Bytes
	c.Orphans.Hours += o.Orphans.Hours
	c.Orphans.Days += o.Orphans.Days
	c.Orphans.Partial += o.Orphans.Partial
}

// Count counts the samples that Delete would delete. It deletes nothing, but it reads all these samples.
func (d *Deleter) Count(ctx context.Context, r Request) (count Count, err error) {
	if r, err = r.Clip(); err != nil || r.Empty() {
		return count, err
	}
	unflushed := func(
		ref index.Ref, mintMs, maxtMs int64, tsMs []int64, values []float64,
	) ([]int64, []float64, error) {
		tsMs, values, err := d.opts.Head.AppendSamples(uint32(ref), mintMs, maxtMs, tsMs, values)
		if err != nil {
			return tsMs, values, err
		}
		histograms, err := d.opts.Head.AppendHistograms(uint32(ref), mintMs, maxtMs, nil)
		return union(tsMs, histograms), values, err
	}
	return d.scanner().Count(ctx, r, d.opts.Tombstones, unflushed)
}

// union returns the times of floats and histograms. A query finds one sample at each.
func union(tsMs []int64, histograms []histchunk.Sample) []int64 {
	if len(histograms) == 0 {
		return tsMs
	}
	for i := range histograms {
		tsMs = append(tsMs, histograms[i].TsMs)
	}
	slices.Sort(tsMs)
	return slices.Compact(tsMs)
}

// Unflushed appends the samples of a series that the tables lack. A count needs only their times.
type Unflushed func(ref index.Ref, mintMs, maxtMs int64, tsMs []int64, values []float64) ([]int64, []float64, error)

// Count counts the samples that a deletion would delete.
func (sc Scanner) Count(ctx context.Context, r Request, set *tombstone.Set, head Unflushed) (count Count, err error) {
	found, err := sc.Select(ctx, r)
	if err != nil {
		return count, err
	}
	for some := range slices.Chunk(found, batchSeries) {
		c := counter{Scanner: sc, set: set, memory: head, request: r, series: some}
		if err := c.count(ctx, &count); err != nil {
			return count, err
		}
	}
	count.Orphans, err = sc.countOrphans(ctx, r)
	return count, err
}

// counter counts some series.
type counter struct {
	Scanner
	set     *tombstone.Set
	memory  Unflushed
	request Request
	series  []index.Series
	head    [][]int64 // for each series, the times of samples that are in memory but not in the table
	samples []int64
	bytes   int64
	row     chunk.Row
	decoder histchunk.Decoder
}

// headSampleBytes is the approximate size of a sample in memory.
const headSampleBytes = 12

func (c *counter) count(ctx context.Context, into *Count) error {
	c.head, c.samples = make([][]int64, len(c.series)), make([]int64, len(c.series))
	view, err := c.set.Read(c.readHead)
	if err != nil {
		return err
	}
	defer view.Release()
	if err := c.readRows(ctx, view); err != nil {
		return err
	}
	for n := range c.series {
		unflushed := int64(len(c.head[n]))
		if c.samples[n]+unflushed > 0 {
			into.Series++
		}
		into.Samples += c.samples[n] + unflushed
		into.Bytes += unflushed * headSampleBytes
	}
	into.Bytes += c.bytes
	return nil
}

// orphanSeriesMax is the number of series whose orphans are counted in one batch. A batch keeps all hours with rows in
// memory.
const orphanSeriesMax = 128

// countOrphans counts states without samples that a deletion would remove.
func (sc Scanner) countOrphans(ctx context.Context, r Request) (orphans rollupstore.Orphans, err error) {
	if sc.States == nil {
		return orphans, nil
	}
	// A deletion removes whole states of days, even of series without samples in its time range.
	wide := r
	wide.FromMs, wide.ToMs = storage.WholeDays(r.FromMs, r.ToMs)
	found, err := sc.Select(ctx, wide)
	if err != nil {
		return orphans, err
	}
	for some := range slices.Chunk(found, orphanSeriesMax) {
		more, err := sc.countOrphansOf(ctx, wide, r, some)
		if err != nil {
			return orphans, err
		}
		orphans.Hours, orphans.Days = orphans.Hours+more.Hours, orphans.Days+more.Days
		orphans.Partial += more.Partial
	}
	return orphans, nil
}

// countOrphansOf counts the orphans of a batch of series.
func (sc Scanner) countOrphansOf(
	ctx context.Context, wide, r Request, some []index.Series,
) (orphans rollupstore.Orphans, err error) {
	rows, err := sc.RowHours(ctx, some)
	if err != nil {
		return orphans, err
	}
	first, last := int64(math.MaxInt64), int64(-1)
	owners := map[string]int{}
	for n := range some {
		sc.prefixes(&some[n], keyschema.HourOf(wide.FromMs), keyschema.HourOf(wide.ToMs), func(prefix []byte, from, to int64) {
			first, last = min(first, from), max(last, to)
			owners[string(prefix)] = n
		})
	}
	if len(owners) == 0 {
		return orphans, nil
	}
	prefixes := make([][]byte, 0, len(owners))
	for _, prefix := range slices.Sorted(maps.Keys(owners)) {
		prefixes = append(prefixes, []byte(prefix))
	}
	has := func(i int, hour int64) bool { return rows[owners[string(prefixes[i])]][hour] }
	return sc.States.CountOrphans(ctx, prefixes, first/keyschema.DayHours, last/keyschema.DayHours, r.FromMs, r.ToMs, has)
}

func (c *counter) readHead() error {
	for n, s := range c.series {
		if s.Ref == 0 {
			continue
		}
		tsMs, _, err := c.memory(s.Ref, c.request.FromMs, c.request.ToMs, nil, nil)
		if err != nil {
			return err
		}
		c.head[n] = tsMs
	}
	return nil
}

func (c *counter) readRows(ctx context.Context, view *tombstone.View) (err error) {
	var set storage.RowSet
	owners := map[string]int{}
	first, last := keyschema.HourOf(c.request.FromMs), keyschema.HourOf(c.request.ToMs)
	for n := range c.series {
		c.prefixes(&c.series[n], first, last, func(prefix []byte, from, to int64) {
			owners[string(prefix)] = n
			start, end := keyschema.SeriesRange(prefix, from, to)
			set.Ranges = append(set.Ranges, storage.RowRange{Start: start, End: end})
		})
	}
	if len(set.Ranges) == 0 {
		return nil
	}
	it := c.Data.ReadRows(ctx, set, storage.ReadOptions{Deletions: view, Filter: storage.Filter{
		Families: []string{storage.FamilySamples, storage.FamilyHistograms}, VersionsMax: 1,
		FromMs: keyschema.HourStartMs(first), ToMs: keyschema.HourStartMs(last + 1),
	}})
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.Next() {
		if err := c.add(it.Row(), owners); err != nil {
			return fmt.Errorf("%w: table %s: %w", storage.ErrCorrupt, storage.TableData, err)
		}
	}
	return it.Err()
}

// add counts a row's samples.
func (c *counter) add(row storage.Row, owners map[string]int) error {
	prefix, hour, ok := keyschema.CutHour(row.Key)
	if !ok {
		return fmt.Errorf("key %q has no hour", row.Key)
	}
	n := owners[string(prefix)]
	c.row.Reset(keyschema.HourStartMs(hour))
	size, histograms, err := int64(0), []histchunk.Sample(nil), error(nil)
	for _, cell := range row.Cells {
		if cell.Family == storage.FamilyHistograms {
			histograms, err = c.decoder.Decode(cell.Value, keyschema.HourStartMs(hour), histograms)
		} else {
			err = c.row.Add(cell.Qualifier, cell.Value)
		}
		if err != nil {
			return fmt.Errorf("row %s: %w", row.Key, err)
		}
		size += int64(len(cell.Value))
	}
	tsMs, _ := c.row.Columns()
	tsMs = union(tsMs, histograms)
	from, _ := slices.BinarySearch(tsMs, c.request.FromMs)
	to, _ := slices.BinarySearch(tsMs, c.request.ToMs+1)
	if from == to {
		return nil
	}
	c.samples[n] += int64(to - from)
	c.bytes += size * int64(to-from) / int64(len(tsMs))
	c.head[n] = slices.DeleteFunc(c.head[n], func(ts int64) bool {
		_, both := slices.BinarySearch(tsMs, ts)
		return both
	})
	return nil
}
