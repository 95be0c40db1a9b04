package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"halite/api/receiver/jsonl"
	"halite/cmd/tsdb/internal/backup"
)

// parquetRow is a sample. Value is null for a native histogram, Histogram for a float.
type parquetRow struct {
	Metric      string            `parquet:"metric,dict"`
	Labels      map[string]string `parquet:"labels" parquet-key:",dict" parquet-value:",dict"`
	TimestampMs int64             `parquet:"timestamp,timestamp(millisecond)"`
	Value       *float64          `parquet:"value,optional"`
	Histogram   *string           `parquet:"histogram,optional"`
}

const (
	// parquetBatch is the number of rows that are written at once.
	parquetBatch = 1 << 10
	// parquetGroupRows is the number of rows of a row group.
	parquetGroupRows = 1 << 18
	parquetName      = "samples.parquet"
)

// ExportParquet writes a file for each day in UTC below dir: day=2026-11-23/samples.parquet. A file either is complete or does
// not exist. With skipExisting, days with a file are left out.
func ExportParquet(ctx context.Context, from Reader, r Range, dir string, skipExisting bool, progress *backup.Progress,
) (n Exported, err error) {
	progress.Begin((r.ToMs-floorDay(r.FromMs))/dayMs + 1)
	for day := floorDay(r.FromMs); day <= r.ToMs; day += dayMs {
		file := filepath.Join(dir, "day="+time.UnixMilli(day).UTC().Format(time.DateOnly), parquetName)
		if _, err := os.Stat(file); err == nil && skipExisting {
			progress.Add(1)
			continue
		}
		bounds := Range{FromMs: max(day, r.FromMs), ToMs: min(day+dayMs-1, r.ToMs), Matchers: r.Matchers}
		some, err := exportDay(ctx, from, bounds, file)
		if err != nil {
			return n, fmt.Errorf("%s: %w", file, err)
		}
		n.Series, n.Samples, n.Histograms = max(n.Series, some.Series), n.Samples+some.Samples, n.Histograms+some.Histograms
		progress.Add(1)
	}
	return n, nil
}

// exportDay writes the file of a day, unless the day has no samples.
func exportDay(ctx context.Context, from Reader, r Range, file string) (n Exported, err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return n, err
	}
	temporary := file + ".tmp"
	out, err := os.Create(temporary)
	if err != nil {
		return n, err
	}
	n, err = writeParquet(ctx, from, r, out)
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return n, errors.Join(err, os.Remove(temporary))
	}
	if n.Series == 0 {
		return n, errors.Join(os.Remove(temporary), os.Remove(filepath.Dir(file)))
	}
	return n, os.Rename(temporary, file)
}

func writeParquet(ctx context.Context, from Reader, r Range, out io.Writer) (n Exported, err error) {
	buffered := bufio.NewWriterSize(out, 1<<18)
	w := parquet.NewGenericWriter[parquetRow](buffered, parquet.Compression(&zstd.Codec{}),
		parquet.MaxRowsPerRowGroup(parquetGroupRows))
	rows := make([]parquetRow, 0, parquetBatch)
	flush := func() error {
		_, err := w.Write(rows)
		rows = rows[:0]
		return err
	}
	var last labels.Labels
	var row parquetRow
	err = from.Read(ctx, r.FromMs, r.ToMs, r.Matchers, func(ls labels.Labels, it chunkenc.Iterator) error {
		if n.Series == 0 || !labels.Equal(ls, last) {
			last = ls
			n.Series++
			row = parquetRow{Metric: ls.Get(model.MetricNameLabel), Labels: make(map[string]string)}
			ls.Range(func(l labels.Label) {
				if l.Name != model.MetricNameLabel {
					row.Labels[l.Name] = l.Value
				}
			})
		}
		return forEachSample(it, &n, func(tsMs int64, v float64, h *histogram.Histogram, fh *histogram.FloatHistogram) error {
			row.TimestampMs, row.Value, row.Histogram = tsMs, nil, nil
			if h == nil && fh == nil {
				row.Value = &v
			} else {
				text, err := jsonl.HistogramText(h, fh)
				if err != nil {
					return err
				}
				row.Histogram = &text
			}
			if rows = append(rows, row); len(rows) < parquetBatch {
				return nil
			}
			return flush()
		})
	})
	if err != nil {
		return n, err
	}
	return n, errors.Join(flush(), w.Close(), buffered.Flush())
}
