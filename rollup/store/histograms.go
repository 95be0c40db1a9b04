package store

import (
	"context"
	"fmt"
	"slices"

	"halite/keyschema"
	"halite/keyschema/histchunk"
	"halite/rollup/cell"
	"halite/storage"
)

// ReadHistograms passes the native histograms that the states of hours keep to visit, series by series in the order of the
// prefixes. It passes the histograms within the hours from From to To, ascending, without deleted ones. It stops at an error
// of visit and returns it. A damaged cell is an error that wraps [storage.ErrCorrupt].
//
// Unlike states of floats, it also passes histograms of dirty hours: a caller reads samples for all times for which
// retention has kept them.
func (s *Store) ReadHistograms(
	ctx context.Context, req Request, visit func(i int, samples []histchunk.Sample) error,
) error {
	if req.Unit != Hours {
		return fmt.Errorf("%w: only hourly states have histograms", ErrBadRequest)
	}
	return s.read(ctx, &req, func(r *reader, it storage.RowIter) error {
		var h histogramReader
		begin := func() { h.samples = nil }
		return r.forEachSeries(ctx, it, begin, func(row storage.Row, month int64) error { return h.addRow(r, row, month) },
			func(i int) error { return visit(i, h.samples) })
	})
}

// histogramReader reads the histograms of one series after the other.
type histogramReader struct {
	decoder cell.HistogramDecoder
	samples []histchunk.Sample // of the current series
}

// addRow adds the histograms of a row. The rows of a series start with the newest month.
func (h *histogramReader) addRow(r *reader, row storage.Row, month int64) (err error) {
	horizons, start := horizonsOf(row), MonthStart(month)
	gone := map[int64]bool{} // hours
	for i := range row.Cells {
		if c := &row.Cells[i]; IsMark(c.Qualifier) && len(c.Value) == 1 && c.Value[0] == MarkGone {
			gone[(start+int64(c.Qualifier[0])-1)*keyschema.DayHours+int64(c.Qualifier[2])] = true
		}
	}
	var samples []histchunk.Sample
	for i := range row.Cells {
		c := &row.Cells[i]
		if !IsHistograms(c.Qualifier) || c.TsMs < r.cutoffMs || int(c.Qualifier[0]) >= len(horizons) {
			continue
		}
		from := len(samples)
		if samples, err = h.decode(row.Key, c, samples); err != nil {
			r.store.metrics.corrupt.Inc()
			return fmt.Errorf("%w: table %s, row %q: %w", storage.ErrCorrupt, storage.TableRollup, row.Key, err)
		}
		horizon := horizons[c.Qualifier[0]]
		kept := slices.DeleteFunc(samples[from:], func(s histchunk.Sample) bool {
			hour := keyschema.HourOf(s.TsMs)
			return hour < r.req.From || hour > r.req.To || gone[hour] && !r.req.stored || r.invalidated.Deletes(s.TsMs, horizon)
		})
		samples = samples[:from+len(kept)]
	}
	h.samples = append(samples, h.samples...)
	return nil
}

// decode appends the histograms of a cell to dst.
func (h *histogramReader) decode(row []byte, c *storage.Cell, dst []histchunk.Sample) ([]histchunk.Sample, error) {
	if len(c.Value) == 0 {
		return dst, nil
	}
	return h.decoder.Decode(row, c.Qualifier, c.Value, c.TsMs/dayMs*dayMs, dst)
}
