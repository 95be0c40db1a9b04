package tools

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeebo/xxh3"
	"golang.org/x/sync/errgroup"

	"halite/cmd/tsdb/internal/backup"
	"halite/storage"
)

// sumRangesMax bounds the ranges of a table. Each range has a checksum.
const sumRangesMax = 64

// rangeSum holds the counts and the checksum of a range.
type rangeSum struct {
	rows, cells, bytes int64
	hash               xxh3.Uint128
}

// verifyAll compares every table of the source, range by range, and prints the checksums.
func (m *migration) verifyAll(ctx context.Context) error {
	schemas, err := m.from.Tables(ctx)
	if err != nil {
		return err
	}
	others, err := m.to.Tables(ctx)
	if err != nil {
		return err
	}
	var faults []error
	for _, other := range others {
		if !slices.ContainsFunc(schemas, func(s storage.TableSchema) bool { return s.Name == other.Name }) {
			faults = append(faults, fmt.Errorf("table %s exists only in the destination", other.Name))
		}
	}
	// The copy has counted the rows. A comparison alone knows no total, so it reports finished ranges only.
	m.verified = backup.NewProgressOf(m.out, time.Now, "rows compared")
	m.verified.Begin(m.state.Rows)
	for _, schema := range schemas {
		if err := m.verifyTable(ctx, schema.Name); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

func (m *migration) verifyTable(ctx context.Context, name string) error {
	from, err := m.from.Table(ctx, name)
	if err != nil {
		return err
	}
	to, err := m.to.Table(ctx, name)
	if err != nil {
		return fmt.Errorf("table %s of the destination: %w", name, err)
	}
	ranges, err := rangesOf(ctx, from, to)
	if err != nil {
		return err
	}
	for _, r := range ranges {
		var sums [2]rangeSum
		done := [2]*backup.Progress{m.verified, nil} // both sides have the same rows, so only one side counts
		group, groupCtx := errgroup.WithContext(ctx)
		for i, table := range []storage.Table{from, to} {
			group.Go(func() (err error) {
				sums[i], err = sumRange(groupCtx, table, r, done[i])
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return fmt.Errorf("checksum of table %s: %w", name, err)
		}
		s := sums[0]
		if sums[0] != sums[1] {
			return fmt.Errorf("table %s, range [%q, %q): %d rows with %d cells in the source, %d with %d in the destination; %w", name,
				r.Start, r.End, sums[0].rows, sums[0].cells, sums[1].rows, sums[1].cells, firstDifference(ctx, from, to, r))
		}
		fmt.Fprintf(m.out, "%s [%q, %q): %d rows, %d cells, %d bytes, %016x%016x, equal\n", name, r.Start, r.End, s.rows, s.cells,
			s.bytes, s.hash.Hi, s.hash.Lo)
	}
	return nil
}

// rangesOf splits the key space where tablets of either store begin.
func rangesOf(ctx context.Context, tables ...storage.Table) ([]storage.RowRange, error) {
	var starts [][]byte
	for _, table := range tables {
		tablets, err := table.Tablets(ctx)
		if err != nil {
			return nil, err
		}
		for _, t := range tablets {
			if len(t.Range.Start) > 0 {
				starts = append(starts, t.Range.Start)
			}
		}
	}
	slices.SortFunc(starts, bytes.Compare)
	starts = slices.CompactFunc(starts, bytes.Equal)
	ranges := []storage.RowRange{{}}
	cuts := min(len(starts), sumRangesMax-1)
	for i := range cuts {
		start := starts[i*len(starts)/cuts]
		ranges[len(ranges)-1].End = start
		ranges = append(ranges, storage.RowRange{Start: start})
	}
	return ranges, nil
}

// sumRowsReported is the number of rows between two calls of the progress.
const sumRowsReported = 1024

// sumRange reads a range, and adds its rows to done, which may be nil.
func sumRange(ctx context.Context, table storage.Table, r storage.RowRange, done *backup.Progress) (rangeSum, error) {
	var s rangeSum
	h := xxh3.New()
	var frame []byte
	it := table.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{r}}, storage.ReadOptions{})
	for it.Next() {
		row := it.Row()
		if s.rows++; s.rows%sumRowsReported == 0 {
			done.Add(sumRowsReported)
		}
		frame = appendFrame(frame[:0], row.Key)
		frame = binary.AppendUvarint(frame, uint64(len(row.Cells)))
		for _, c := range row.Cells {
			s.cells++
			s.bytes += int64(len(c.Value))
			frame = appendFrame(appendFrame(frame, []byte(c.Family)), c.Qualifier)
			frame = appendFrame(binary.AppendVarint(frame, c.TsMs), c.Value)
		}
		if _, err := h.Write(frame); err != nil {
			return s, err
		}
	}
	done.Add(s.rows % sumRowsReported)
	s.hash = h.Sum128()
	return s, errors.Join(it.Err(), it.Close())
}

func appendFrame(dst, text []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// firstDifference names the first row that differs between the stores.
func firstDifference(ctx context.Context, from, to storage.Table, r storage.RowRange) error {
	set := storage.RowSet{Ranges: []storage.RowRange{r}}
	a, b := from.ReadRows(ctx, set, storage.ReadOptions{}), to.ReadRows(ctx, set, storage.ReadOptions{})
	defer a.Close()
	defer b.Close()
	for {
		more, other := a.Next(), b.Next()
		if err := errors.Join(a.Err(), b.Err()); err != nil {
			return err
		}
		switch {
		case !more && !other:
			return errors.New("the stores are equal by now: did a server write during the comparison?")
		case !more || other && bytes.Compare(a.Row().Key, b.Row().Key) > 0:
			return fmt.Errorf("first difference: row %s exists only in the destination", printable(b.Row().Key))
		case !other || !bytes.Equal(a.Row().Key, b.Row().Key):
			return fmt.Errorf("first difference: row %s exists only in the source", printable(a.Row().Key))
		case !sameCells(a.Row().Cells, b.Row().Cells):
			return fmt.Errorf("first difference: row %s has different cells", printable(a.Row().Key))
		}
	}
}

func sameCells(a, b []storage.Cell) bool {
	return slices.EqualFunc(a, b, func(x, y storage.Cell) bool {
		return x.Family == y.Family && x.TsMs == y.TsMs && bytes.Equal(x.Qualifier, y.Qualifier) && bytes.Equal(x.Value, y.Value)
	})
}
