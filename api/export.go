package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"halite/api/receiver/csv"
	"halite/api/receiver/jsonl"
)

// Paths of exports.
const (
	ExportPath    = "/api/v1/export"
	ExportCSVPath = "/api/v1/export/csv"
)

// omittedTrailer follows the rows of an export. It counts native histograms, which rows cannot hold.
const omittedTrailer = http.TrailerPrefix + "X-Omitted-Histograms"

const (
	// exportRowsMax bounds the samples of a line, and so the memory of an export.
	exportRowsMax = 1 << 16
	// exportPartBytes is the size from which a part of an export is sent.
	exportPartBytes = 1 << 18
	// exportBytes is the memory of an export, without the samples that the store reads.
	exportBytes = exportRowsMax*64 + 2*exportPartBytes
)

// encoder writes samples in a format of exports.
type encoder interface {
	// Begin begins a series. Samples added next belong to it.
	Begin(ls labels.Labels)
	Float(tsMs int64, v float64)
	// Histogram adds an integer histogram, or fh if h is nil.
	Histogram(tsMs int64, h *histogram.Histogram, fh *histogram.FloatHistogram) error
	// Rows is the number of samples since the last Append. Append appends these samples to dst.
	Rows() int
	Append(dst []byte) []byte
}

// exportFormat is a format of exports.
type exportFormat struct {
	contentType string
	// open returns an encoder for the parameters of a request.
	open func(r *http.Request) (encoder, error)
}

// exportFormats are the formats of exports by their path.
func exportFormats() map[string]exportFormat {
	return map[string]exportFormat{
		ExportPath:    {"application/stream+json; charset=utf-8", jsonLines},
		ExportCSVPath: {"text/csv; charset=utf-8", csvRows},
	}
}

func jsonLines(*http.Request) (encoder, error) { return &jsonl.Encoder{}, nil }

func csvRows(r *http.Request) (encoder, error) {
	format := r.FormValue("format")
	if format == "" {
		return nil, errors.New("parameter format is missing: it lists columns, such as __name__,job,__value__,__timestamp__:unix_s")
	}
	return csv.NewEncoder(format)
}

// export returns the handler of an export. It accepts VictoriaMetrics's parameters match[], start, end and max_rows_per_line. It
// ignores reduce_mem_usage, because an export always needs little memory.
func (s *Server) export(format exportFormat) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.setCORS(w, r)
		r, aerr := s.parseForm(w, r)
		if aerr == nil {
			aerr = strictForm(r)
		}
		if aerr == nil {
			aerr = s.sendExport(w, r, format)
		}
		if aerr != nil {
			s.respondError(w, aerr)
		}
	}
}

func (s *Server) sendExport(w http.ResponseWriter, r *http.Request, format exportFormat) *apiError {
	e, aerr := s.newExporter(r, format)
	if aerr != nil {
		return aerr
	}
	slot := &readSlot{reads: s.reads}
	ctx, cancel := context.WithTimeout(r.Context(), s.opts.Limits.ReadTimeout)
	defer cancel()
	if err := slot.acquire(ctx); err != nil {
		return &apiError{typ: errUnavailable, err: errReadsBusy}
	}
	defer slot.release()
	w.Header().Set("Content-Type", format.contentType)
	return s.stream(w, r, slot, func(ctx context.Context, out *stream, budget responseBudget) *apiError {
		e.out = out
		rows, isCSV := e.encoder.(*csv.Encoder)
		if isCSV {
			e.part = append(e.part, rows.Header()...)
		}
		err := budget.reserve(exportBytes)
		for n := 0; err == nil && n < len(e.sets); n++ {
			err = s.exportSet(ctx, e, n, budget)
		}
		if err == nil {
			err = e.send(ctx, 1)
		}
		if err != nil {
			w.Header().Del("Content-Type")
			return evalError(err)
		}
		if isCSV {
			w.Header().Set(omittedTrailer, strconv.Itoa(rows.Omitted))
		}
		return nil
	})
}

// exporter is one export.
type exporter struct {
	encoder encoder
	sets    [][]*labels.Matcher
	// fromMs and toMs bound the samples, in milliseconds since 1970, both inclusive.
	fromMs, toMs int64
	rowsMax      int
	out          *stream
	part         []byte
}

// newExporter reads the parameters of an export.
func (s *Server) newExporter(r *http.Request, format exportFormat) (*exporter, *apiError) {
	r.Form["match[]"] = append(r.Form["match[]"], r.Form["match"]...)
	texts, aerr := s.selectorTexts(r)
	if aerr != nil {
		return nil, aerr
	}
	if len(texts) == 0 {
		return nil, badParam("match[]", errors.New("no match[] parameter provided"))
	}
	e := &exporter{rowsMax: exportRowsMax}
	var err error
	if e.sets, err = matcherSets(s.opts.Engine.Parser(), texts); err != nil {
		return nil, badParam("match[]", err)
	}
	start, end, aerr := boundsParam(r)
	if aerr != nil {
		return nil, aerr
	}
	if end.Before(start) {
		return nil, badParam("end", errors.New("end timestamp must not be before start time"))
	}
	var ok bool
	if e.fromMs, e.toMs, ok = storeBounds(start, end); !ok {
		e.sets = nil
	}
	if text := r.FormValue("max_rows_per_line"); text != "" {
		rows, err := strconv.Atoi(text)
		if err != nil || rows < 0 {
			return nil, badParam("max_rows_per_line", fmt.Errorf("%q is not a number of samples", text))
		}
		if rows > 0 {
			e.rowsMax = min(rows, exportRowsMax)
		}
	}
	if e.encoder, err = format.open(r); err != nil {
		return nil, badData(err)
	}
	return e, nil
}

// exportSet exports the series of a selector that no previous selector matches.
func (s *Server) exportSet(ctx context.Context, e *exporter, n int, budget responseBudget) error {
	querier, err := s.readUnder(budget).Querier(e.fromMs, e.toMs)
	if err != nil {
		return err
	}
	defer s.closeQuerier(querier)
	var it chunkenc.Iterator
	set := querier.Select(ctx, true, &promstorage.SelectHints{Start: e.fromMs, End: e.toMs}, e.sets[n]...)
	for set.Next() {
		series := set.At()
		if matchesAny(series.Labels(), e.sets[:n]) {
			continue
		}
		e.encoder.Begin(series.Labels())
		it = series.Iterator(it)
		if err := e.series(ctx, it); err != nil {
			return err
		}
	}
	return set.Err()
}

func matchesAny(ls labels.Labels, sets [][]*labels.Matcher) bool {
	for _, set := range sets {
		all := true
		for _, m := range set {
			all = all && m.Matches(ls.Get(m.Name))
		}
		if all {
			return true
		}
	}
	return false
}

// series exports the samples of a series.
func (e *exporter) series(ctx context.Context, it chunkenc.Iterator) error {
	for typ := it.Next(); typ != chunkenc.ValNone; typ = it.Next() {
		var err error
		switch typ {
		case chunkenc.ValHistogram:
			tsMs, h := it.AtHistogram(nil)
			err = e.encoder.Histogram(tsMs, h, nil)
		case chunkenc.ValFloatHistogram:
			tsMs, h := it.AtFloatHistogram(nil)
			err = e.encoder.Histogram(tsMs, nil, h)
		default:
			e.encoder.Float(it.At())
		}
		if err != nil {
			return err
		}
		if e.encoder.Rows() < e.rowsMax {
			continue
		}
		e.part = e.encoder.Append(e.part)
		if err := e.send(ctx, exportPartBytes); err != nil {
			return err
		}
	}
	e.part = e.encoder.Append(e.part)
	if err := it.Err(); err != nil {
		return err
	}
	return e.send(ctx, exportPartBytes)
}

// send sends the buffered text if it has at least sizeBytes.
func (e *exporter) send(ctx context.Context, sizeBytes int) error {
	if len(e.part) < sizeBytes {
		return nil
	}
	err := e.out.write(ctx, e.part)
	e.part = e.part[:0]
	return err
}
