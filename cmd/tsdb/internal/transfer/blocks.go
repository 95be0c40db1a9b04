package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"halite/keyschema"
)

// dayMs is the time range of one read. Rows of one day are stored together.
const dayMs = keyschema.HourMs * keyschema.DayHours

// Blocks are the blocks of Prometheus or Thanos.
type Blocks struct {
	dir    string
	blocks []*tsdb.Block // by time
	// matchers select the series; fromMs and toMs bound the samples, both inclusive.
	matchers     []*labels.Matcher
	fromMs, toMs int64
	partSamples  int
}

// Range bounds the samples that are read from a source.
type Range struct {
	// FromMs and ToMs are in milliseconds since 1970, both inclusive.
	FromMs, ToMs int64
	// Matchers select series.
	Matchers []*labels.Matcher
}

// OpenBlocks opens the blocks in a directory: the data directory of a Prometheus server, one of its snapshots, or a single block.
// partSamples, up to PartSamplesMax, is the number of samples at which a part is complete.
func OpenBlocks(dir string, r Range, partSamples int, log *slog.Logger) (*Blocks, error) {
	if err := checkPart(partSamples); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	b := &Blocks{dir: dir, matchers: r.Matchers, fromMs: r.FromMs, toMs: r.ToMs, partSamples: partSamples}
	dirs, err := blockDirs(dir)
	if err != nil {
		return nil, err
	}
	for _, each := range dirs {
		block, err := tsdb.OpenBlock(log, each, chunkenc.NewPool(), nil)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("block %s: %w", each, err), b.Close())
		}
		b.blocks = append(b.blocks, block)
	}
	slices.SortFunc(b.blocks, func(x, y *tsdb.Block) int {
		return cmp.Or(cmp.Compare(x.MinTime(), y.MinTime()), cmp.Compare(x.MaxTime(), y.MaxTime()))
	})
	b.blocks = slices.DeleteFunc(b.blocks, func(block *tsdb.Block) bool {
		return block.MaxTime() <= b.fromMs || block.MinTime() > b.toMs
	})
	if len(b.blocks) == 0 {
		return nil, fmt.Errorf("the blocks in %s have no samples in the range of --from and --to", dir)
	}
	return b, nil
}

// blockDirs returns the directories of blocks in dir, or dir if it is a block. As in Prometheus, the name of a block is a ULID.
// Other directories are a log, or blocks that a killed Prometheus did not finish.
func blockDirs(dir string) (dirs []string, err error) {
	if _, err := os.Stat(filepath.Join(dir, "meta.json")); err == nil {
		return []string{dir}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if _, err := ulid.ParseStrict(e.Name()); err == nil && e.IsDir() {
			dirs = append(dirs, filepath.Join(dir, e.Name()))
		}
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("%s has no blocks: name the data directory of a Prometheus server, a snapshot or a block", dir)
	}
	return dirs, nil
}

// HasLog reports whether the directory has a write-ahead log, whose samples are in no block.
func (b *Blocks) HasLog() bool {
	_, err := os.Stat(filepath.Join(b.dir, "wal"))
	return err == nil
}

// Name implements Source.
func (b *Blocks) Name() string { return "prometheus-blocks " + b.dir }

// Size implements Source. The total counts samples in blocks, deleted ones included.
func (b *Blocks) Size(ctx context.Context) (Size, error) {
	s := Size{Unit: "samples", OldestMs: max(b.blocks[0].MinTime(), b.fromMs)}
	metrics := make(map[string]struct{})
	for _, block := range b.blocks {
		stats := block.Meta().Stats
		s.Total += int64(stats.NumSamples)
		s.Histograms = s.Histograms || stats.NumHistogramSamples > 0
		q, err := tsdb.NewBlockQuerier(block, block.MinTime(), block.MaxTime())
		if err != nil {
			return s, err
		}
		names, _, err := q.LabelValues(ctx, model.MetricNameLabel, nil, b.matchers...)
		if err = errors.Join(err, q.Close()); err != nil {
			return s, fmt.Errorf("block %s: %w", block.Dir(), err)
		}
		for _, name := range names {
			metrics[name] = struct{}{}
		}
	}
	s.Metrics = slices.Sorted(maps.Keys(metrics))
	return s, nil
}

// Parts implements Source. It goes day by day, and within a day series by series. The tombstones of blocks hide samples. If
// several blocks have a sample of one time, it passes one of them.
func (b *Blocks) Parts(ctx context.Context, from Position, visit func(*Part) error) error {
	first, last := max(b.blocks[0].MinTime(), b.fromMs), b.toMs
	newest := b.blocks[0].MaxTime()
	for _, block := range b.blocks {
		newest = max(newest, block.MaxTime())
	}
	last = min(last, newest-1) // MaxTime is exclusive
	w := partWriter{visit: visit, partSamples: b.partSamples}
	for day := max(floorDay(first), from.DayMs); day <= last; day += dayMs {
		done := int64(0)
		if day == from.DayMs {
			done = from.Series
		}
		if err := b.day(ctx, day, done, &w); err != nil {
			return err
		}
	}
	return w.end()
}

func floorDay(ms int64) int64 { return ms - (ms%dayMs+dayMs)%dayMs }

// day passes the samples of a day. It skips the first series, which are done.
func (b *Blocks) day(ctx context.Context, day, skip int64, w *partWriter) (err error) {
	fromMs, toMs := max(day, b.fromMs), min(day+dayMs-1, b.toMs)
	var read []*tsdb.Block
	var queriers []promstorage.Querier
	defer func() {
		for _, q := range queriers {
			err = errors.Join(err, q.Close())
		}
	}()
	for _, block := range b.blocks {
		if block.MinTime() > toMs || block.MaxTime() <= fromMs {
			continue
		}
		q, err := tsdb.NewBlockQuerier(block, fromMs, toMs)
		if err != nil {
			return fmt.Errorf("block %s: %w", block.Dir(), err)
		}
		read, queriers = append(read, block), append(queriers, q)
	}
	var sets []promstorage.SeriesSet
	for _, q := range queriers {
		sets = append(sets, q.Select(ctx, true, nil, b.matchers...))
	}
	set := promstorage.NewMergeSeriesSet(sets, 0, promstorage.ChainedSeriesMerge)
	var it chunkenc.Iterator
	for n := int64(1); set.Next(); n++ {
		if n <= skip {
			continue
		}
		series := set.At()
		it = series.Iterator(it)
		if err := w.part().addSeries(series.Labels(), it, fromMs, toMs); err != nil {
			return fmt.Errorf("%sseries %s: %w", damagedBlock(ctx, read, series.Labels()), series.Labels(), err)
		}
		if err := w.after(ctx, Position{DayMs: day, Series: n}); err != nil {
			return err
		}
	}
	if err := set.Err(); err != nil {
		return err
	}
	return w.after(ctx, Position{DayMs: day + dayMs})
}

// damagedBlock names the first block that cannot read a series. The error of an iterator over several blocks does not name it.
func damagedBlock(ctx context.Context, blocks []*tsdb.Block, ls labels.Labels) string {
	var matchers []*labels.Matcher
	ls.Range(func(l labels.Label) {
		matchers = append(matchers, labels.MustNewMatcher(labels.MatchEqual, l.Name, l.Value))
	})
	for _, block := range blocks {
		q, err := tsdb.NewBlockQuerier(block, block.MinTime(), block.MaxTime())
		if err != nil {
			continue
		}
		set := q.Select(ctx, false, nil, matchers...)
		for err == nil && set.Next() {
			it := set.At().Iterator(nil)
			for it.Next() != chunkenc.ValNone {
			}
			err = it.Err()
		}
		if errors.Join(err, set.Err(), q.Close()) != nil {
			return fmt.Sprintf("block %s: ", block.Dir())
		}
	}
	return ""
}

// Close implements Source.
func (b *Blocks) Close() error {
	var err error
	for _, block := range b.blocks {
		err = errors.Join(err, block.Close())
	}
	return err
}

// partWriter passes on each part once it is complete.
type partWriter struct {
	partSamples int // of a complete part
	visit       func(*Part) error
	// done returns the amount of the source that was read. If it is nil, the writer counts samples.
	done    func() int64
	samples int64
	current *Part
}

// checkPart returns an error for an invalid size of parts.
func checkPart(samples int) error {
	if samples < 1 || samples > PartSamplesMax {
		return fmt.Errorf("--part-samples is %d, it must be from 1 to %d", samples, PartSamplesMax)
	}
	return nil
}

// part returns the part that is not complete yet.
func (w *partWriter) part() *Part {
	if w.current == nil {
		w.current = newPart()
	}
	return w.current
}

// after sets the position after the added samples, and passes on the part if it is complete.
func (w *partWriter) after(ctx context.Context, at Position) error {
	p := w.part()
	p.After = at
	if p.Count() < w.partSamples {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.end()
}

// end passes on the last part.
func (w *partWriter) end() error {
	p := w.current
	w.current = nil
	if p == nil {
		return nil
	}
	w.samples += int64(p.Count())
	if p.Done = w.samples; w.done != nil {
		p.Done = w.done()
	}
	return w.visit(p)
}
