package main_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
)

// TestExportCommands exports the samples of a server in each format. What an import of the export stores gives the same export.
func TestExportCommands(t *testing.T) {
	t.Parallel()
	blocks, dir := t.TempDir(), t.TempDir()
	start := time.Now().Add(-100 * time.Hour).Truncate(2 * time.Hour)
	samples := writeBlocks(t, blocks, start)
	out, err := runTsdb(t, "import", "prometheus-blocks", blocks, "--storage.path", dir, "--no-verify", "--quiet")
	require.NoError(t, err, out)
	s := startServer(t, dir, "--no-web.self-scrape")
	const histograms = 20 * 4 * importHours / 2
	export := func(t *testing.T, url string, args ...string) (file string) {
		file = filepath.Join(t.TempDir(), "export")
		out, err := runTsdb(t, append(append([]string{"export"}, args...), "--url", url, "--output-file", file)...)
		require.NoError(t, err, out)
		require.Contains(t, out, fmt.Sprintf("Exported %d samples and ", samples-histograms))
		return file
	}
	for _, c := range []struct{ format, match string }{{"jsonl", `{__name__!=""}`}, {"csv", `{n!=""}`}, {"openmetrics", `{n!=""}`}} {
		t.Run(c.format, func(t *testing.T) {
			t.Parallel()
			first := export(t, s.url, c.format, "--match", c.match)
			again := t.TempDir()
			out, err := runTsdb(t, "import", c.format, first, "--storage.path", again, "--no-verify")
			require.NoError(t, err, out)
			second := startServer(t, again, "--no-web.self-scrape")
			require.Equal(t, linesOf(t, first), linesOf(t, export(t, second.url, c.format)))
		})
	}
	t.Run("parquet", func(t *testing.T) {
		t.Parallel()
		files := t.TempDir()
		out, err := runTsdb(t, "export", "parquet", files, "--url", s.url, "--from=103h")
		require.NoError(t, err, out)
		requireParquet(t, files, samples-histograms, histograms)
		out, err = runTsdb(t, "export", "parquet", files, "--url", s.url, "--from=103h", "--skip-existing")
		require.NoError(t, err, out)
		require.Contains(t, out, "Exported 0 samples")
	})
	t.Run("api", func(t *testing.T) {
		t.Parallel()
		resp, err := http.Get(s.url + "/api/v1/export?" + url.Values{"match[]": {`{__name__!=""}`}}.Encode())
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, importSeries+4, strings.Count(string(body), `"timestamps"`))
	})
}

func linesOf(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	lines := strings.Split(string(text), "\n")
	slices.Sort(lines)
	return lines
}

// requireParquet reads the files of all days.
func requireParquet(t *testing.T, dir string, floats, histograms int) {
	t.Helper()
	type row struct {
		Metric    string            `parquet:"metric"`
		Labels    map[string]string `parquet:"labels"`
		Timestamp time.Time         `parquet:"timestamp,timestamp(millisecond)"`
		Value     *float64          `parquet:"value,optional"`
		Histogram *string           `parquet:"histogram,optional"`
	}
	files, err := filepath.Glob(filepath.Join(dir, "day=*", "samples.parquet"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 2)
	for _, name := range files {
		rows, err := parquet.ReadFile[row](name)
		require.NoError(t, err)
		for _, r := range rows {
			require.Contains(t, name, "day="+r.Timestamp.UTC().Format(time.DateOnly))
			if r.Histogram != nil {
				histograms--
				require.Nil(t, r.Value)
				require.Contains(t, *r.Histogram, `"schema"`)
				require.Contains(t, r.Labels, "kind")
				continue
			}
			floats--
			var n int
			_, err := fmt.Sscan(r.Labels["n"], &n)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("imported_%d_total", n%7), r.Metric)
			require.Equal(t, float64(n)+float64(r.Timestamp.Unix()%1000)/8, *r.Value)
		}
	}
	require.Zero(t, floats)
	require.Zero(t, histograms)
	for _, name := range files {
		rows, err := parquet.ReadFile[row](name)
		require.NoError(t, err)
		times, values := arrowColumns(t, name)
		for _, r := range rows {
			require.Equal(t, r.Timestamp.UnixMilli(), times[0])
			times = times[1:]
			if r.Value != nil {
				require.Equal(t, *r.Value, values[0])
				values = values[1:]
			}
		}
		require.Empty(t, times)
		require.Empty(t, values)
	}
}

// arrowColumns reads the times and the values of a file by the library of Apache Arrow, and checks the types of all columns.
func arrowColumns(t *testing.T, name string) (timesMs []int64, values []float64) {
	t.Helper()
	f, err := file.OpenParquetFile(name, false)
	require.NoError(t, err)
	defer f.Close()
	var columns []string
	s := f.MetaData().Schema
	for n := range s.NumColumns() {
		c := s.Column(n)
		logical, _, _ := strings.Cut(c.LogicalType().String(), "(")
		columns = append(columns, fmt.Sprint(c.Path(), " ", c.PhysicalType(), " ", logical))
	}
	require.Equal(t, []string{
		"metric BYTE_ARRAY String", "labels.key_value.key BYTE_ARRAY String", "labels.key_value.value BYTE_ARRAY String",
		"timestamp INT64 Timestamp", "value DOUBLE None", "histogram BYTE_ARRAY String",
	}, columns)
	for n := range f.NumRowGroups() {
		group := f.RowGroup(n)
		rows := group.NumRows()
		for column := range s.NumColumns() {
			reader, err := group.Column(column)
			require.NoError(t, err)
			levels := make([]int16, rows)
			switch c := reader.(type) {
			case *file.Int64ColumnChunkReader:
				batch := make([]int64, rows)
				_, read, err := c.ReadBatch(rows, batch, levels, nil)
				require.NoError(t, err)
				timesMs = append(timesMs, batch[:read]...)
			case *file.Float64ColumnChunkReader:
				batch := make([]float64, rows)
				_, read, err := c.ReadBatch(rows, batch, levels, nil)
				require.NoError(t, err)
				values = append(values, batch[:read]...)
			}
		}
	}
	return timesMs, values
}
