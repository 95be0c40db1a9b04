package keyviz

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/keyviz"
	"halite/storage/keyviz/diagnosis"
	"halite/storage/keyviz/heat"
	"halite/storage/principal"
)

const (
	// topDefault and topMax bound the response of Ranges.
	topDefault = 20
	topMax     = 1000
	// quantile is the figure p99.
	quantile = 0.99
)

// ErrOff means that the server counts no load.
var ErrOff = errors.New("the key heat map is off: start the server with --keyviz.max-memory above 0")

// ErrBadRequest means that the parameters of a request are invalid.
var ErrBadRequest = keyviz.ErrBadRequest

// Options of a Handler. ParseTime is required.
type Options struct {
	// Collector has the load; nil answers with ErrOff.
	Collector *keyviz.Collector
	// Tablets lists the tablets of the data table; nil lists none.
	Tablets func(ctx context.Context) ([]storage.Tablet, error)
	// Tombstones counts the deletions whose rows are not cleaned; nil means none.
	Tombstones func() int
	// ParseTime parses a time.
	ParseTime func(text string) (time.Time, error)
}

// Handler answers requests. The form of each request is parsed. Responses are documents for encoding/json. Errors wrap
// ErrBadRequest or ErrOff if the server is not at fault.
type Handler struct{ opts Options }

// New returns a Handler.
func New(o Options) *Handler { return &Handler{o} }

// Heatmap is the response to /api/v1/keyviz/heatmap. Times are in seconds since 1970.
type Heatmap struct {
	Metric string `json:"metric"`
	Unit   string `json:"unit"`
	// Columns are the starts of the columns, and the end of the last one.
	Columns []float64 `json:"columns"`
	// Missing are the columns in which nothing was counted.
	Missing []int  `json:"missing"`
	Rows    []Row  `json:"rows"`
	Values  Values `json:"values"`
	// Tablets are the tablets of the data table at the time of the response.
	Tablets []Tablet `json:"tablets"`
	// RowTotals and ColTotals add up counts, not rates. For maxima they hold the largest count.
	RowTotals []float64 `json:"rowTotals"`
	ColTotals []float64 `json:"colTotals"`
	Max       float64   `json:"max"`
	P99       float64   `json:"p99"`
	// Diagnostics says in words what the map shows, the worst first.
	Diagnostics []Finding `json:"diagnostics"`
	// Approximate says that counts of a range were divided or added up. Scaled says that rows differ in their number of keys.
	Approximate bool `json:"approximate"`
	Scaled      bool `json:"scaled"`
}

// Row is a range of keys from its key to the next row's.
type Row struct {
	// Key is the start as text, Start as base64url.
	Key    string   `json:"key"`
	Start  string   `json:"start"`
	Labels []string `json:"labels"`
	// Border is what begins here: tenant, metric, salt or "".
	Border string `json:"border"`
}

// Values are the rates, column by column: value r of column c is at c·rows + r.
type Values struct {
	// Encoding is f32le, and Data is base64 of little-endian float32; or it is json, and Data is a list of numbers.
	Encoding string `json:"encoding"`
	Shape    [2]int `json:"shape"`
	Data     any    `json:"data"`
}

// Finding is something that the map shows. Time has its start and end, Key its first key and the key after its last
// one.
type Finding struct {
	ID    string     `json:"id"`
	Level string     `json:"level"`
	Time  [2]float64 `json:"time"`
	Key   [2]string  `json:"key"`
	// Range has the same keys as base64url.
	Range [2]string `json:"range"`
	Share float64   `json:"share"`
	Text  string    `json:"text"`
	// Docs is the place in the documents.
	Docs string `json:"docs"`
}

// tombstones counts the deletions whose rows are not clean. A principal with tenants gets 0, because they belong to all
// tenants.
func (h *Handler) tombstones(ctx context.Context) int {
	if p := principal.From(ctx); h.opts.Tombstones == nil || p != nil && len(p.Tenants) > 0 {
		return 0
	}
	return h.opts.Tombstones()
}

func findings(m *keyviz.Map, tombstones int) []Finding {
	out := []Finding{}
	for _, f := range diagnosis.Find(m, tombstones) {
		out = append(out, Finding{
			ID: f.ID, Level: string(f.Level), Time: [2]float64{seconds(f.FromMs), seconds(f.ToMs)},
			Key: [2]string{keyText(f.Start), keyText(f.End)}, Range: [2]string{encodeKey(f.Start), encodeKey(f.End)}, Share: f.Share,
			Text: f.Text, Docs: "docs/keyviz.md#" + f.ID,
		})
	}
	return out
}

// Tablet is a tablet of the data table.
type Tablet struct {
	Start string `json:"start"`
	End   string `json:"end"`
	Bytes uint64 `json:"bytes"`
	Rows  uint64 `json:"rows"`
	Node  string `json:"node"`
}

// Heatmap answers /api/v1/keyviz/heatmap.
func (h *Handler) Heatmap(r *http.Request) (any, error) {
	format, err := formatOf(r)
	if err != nil {
		return nil, err
	}
	m, err := h.load(r)
	if err != nil {
		return nil, err
	}
	out := document(m, h.tombstones(r.Context()), format)
	if out.Tablets, err = h.tablets(r.Context()); err != nil {
		return nil, err
	}
	return out, nil
}

func formatOf(r *http.Request) (string, error) {
	format := r.FormValue("format")
	if !slices.Contains([]string{"", "json", "f32", "f32le"}, format) {
		return "", fmt.Errorf("%w: format %q is unknown; known are json and f32", ErrBadRequest, format)
	}
	return format, nil
}

// document is a map without tablets.
func document(m *keyviz.Map, tombstones int, format string) *Heatmap {
	out := &Heatmap{
		Metric: m.Metric.String(), Unit: m.Metric.Unit(), Rows: rowsOf(m), Diagnostics: findings(m, tombstones), Missing: []int{},
		Approximate: m.Approximate, Scaled: true, Tablets: []Tablet{},
	}
	for _, ms := range m.TimesMs {
		out.Columns = append(out.Columns, seconds(ms))
	}
	for i, missing := range m.Missing {
		if missing {
			out.Missing = append(out.Missing, i)
		}
	}
	rates := out.summarize(m)
	out.Values = values(rates, len(m.Values), len(m.Starts), format)
	return out
}

// summarize fills in totals and figures, and returns the rates.
func (out *Heatmap) summarize(m *keyviz.Map) (rates []float64) {
	out.RowTotals, out.ColTotals = make([]float64, len(m.Starts)), make([]float64, len(m.Values))
	for c, column := range m.Values {
		for r, n := range column {
			if m.Metric.IsMax() {
				out.RowTotals[r], out.ColTotals[c] = max(out.RowTotals[r], n), max(out.ColTotals[c], n)
			} else {
				out.RowTotals[r] += n
				out.ColTotals[c] += n
			}
			rates = append(rates, n*scale(m, c))
		}
	}
	sorted := slices.Clone(rates)
	slices.Sort(sorted)
	if n := len(sorted); n > 0 {
		out.Max, out.P99 = sorted[n-1], sorted[min(n-1, int(quantile*float64(n)))]
	}
	return rates
}

// scale turns a count of a column into a rate, and nanoseconds into seconds.
func scale(m *keyviz.Map, c int) float64 {
	perSecond := 1000 / float64(m.TimesMs[c+1]-m.TimesMs[c])
	switch m.Metric {
	case heat.ReadNanos:
		return perSecond / 1e9
	case heat.ReadNanosMax:
		return 1 / 1e9
	default:
		return perSecond
	}
}

func values(rates []float64, columns, rows int, format string) Values {
	v := Values{Encoding: "json", Shape: [2]int{columns, rows}, Data: rates}
	if format == "f32" || format == "f32le" {
		raw := make([]byte, 0, 4*len(rates))
		for _, rate := range rates {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(rate)))
		}
		v.Encoding, v.Data = "f32le", base64.StdEncoding.EncodeToString(raw)
	}
	return v
}

func rowsOf(m *keyviz.Map) []Row {
	rows := make([]Row, len(m.Starts))
	for i, start := range m.Starts {
		rows[i] = Row{Key: keyText(start), Start: encodeKey(start), Labels: labelsOf(start)}
		if i > 0 {
			rows[i].Border = heat.BorderOf(m.Starts[i-1], start).String()
		}
	}
	return rows
}

// load returns the map that a request asks for.
func (h *Handler) load(r *http.Request) (*keyviz.Map, error) {
	q, err := h.request(r)
	if err != nil {
		return nil, err
	}
	return h.opts.Collector.Map(r.Context(), q)
}

// request reads the parameters of a request.
func (h *Handler) request(r *http.Request) (q keyviz.Request, err error) {
	if h.opts.Collector == nil {
		return q, ErrOff
	}
	for name, into := range map[string]*int64{"start": &q.FromMs, "end": &q.ToMs} {
		if text := r.FormValue(name); text != "" {
			if *into, err = h.time(name, text); err != nil {
				return q, err
			}
		}
	}
	for name, into := range map[string]*int{"rows": &q.Rows, "cols": &q.Columns} {
		if *into, err = number(r, name); err != nil {
			return q, err
		}
	}
	for name, into := range map[string]*string{"start_key": &q.Start, "end_key": &q.End} {
		if *into, err = decodeKey(name, r.FormValue(name)); err != nil {
			return q, err
		}
	}
	if name := r.FormValue("metric"); name != "" {
		if q.Metric, err = heat.ParseMetric(name); err != nil {
			return q, fmt.Errorf("%w: %w", ErrBadRequest, err)
		}
	}
	q.Start, q.End, err = within(r.Context(), q.Start, q.End)
	return q, err
}

func (h *Handler) time(name, text string) (int64, error) {
	t, err := h.opts.ParseTime(text)
	if err == nil && (t.UnixMilli() < 1 || t.UnixMilli() > keyschema.TimeMaxMs) {
		err = errors.New("it is before 1970 or after the last hour that keys can hold")
	}
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", ErrBadRequest, name, err)
	}
	return t.UnixMilli(), nil
}

func number(r *http.Request, name string) (int, error) {
	text := r.FormValue(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%w: %s is %q: it must be a number above 0", ErrBadRequest, name, text)
	}
	return n, nil
}

// within cuts a range of keys to the rows of the principal's tenant.
func within(ctx context.Context, start, end string) (from, to string, err error) {
	first, last := tenantKeys(ctx)
	start = max(start, first)
	if last != "" && (end == "" || end > last) {
		end = last
	}
	if end != "" && start >= end {
		return "", "", fmt.Errorf("%w: the tenant has no keys from start_key to end_key", ErrBadRequest)
	}
	return start, end, nil
}

// tenantKeys returns the range of the row keys of the principal's tenant, or all keys if the principal has no tenant.
// The range of the default tenant omits metrics whose names begin with a control character, a space or one of !"#$%&.
func tenantKeys(ctx context.Context) (start, end string) {
	p := principal.From(ctx)
	if p == nil || len(p.Tenants) == 0 {
		return "", ""
	}
	if p.Tenants[0] == keyschema.DefaultTenant {
		return string(rune(keyschema.TenantMark + 1)), ""
	}
	first, last := keyschema.TenantRows(p.Tenants[0])
	return string(first), string(last)
}

// tablets lists the tablets that hold only keys of the principal's tenant.
func (h *Handler) tablets(ctx context.Context) ([]Tablet, error) {
	out := []Tablet{}
	if h.opts.Tablets == nil {
		return out, nil
	}
	list, err := h.opts.Tablets(ctx)
	if err != nil {
		return nil, fmt.Errorf("list tablets: %w", err)
	}
	first, last := tenantKeys(ctx)
	for _, t := range list {
		start, end := string(t.Range.Start), string(t.Range.End)
		if start < first || last != "" && (end == "" || end > last) {
			continue
		}
		out = append(out, Tablet{keyText(start), keyText(end), t.SizeBytes, t.RowsWritten + t.RowsRead, "local"})
	}
	return out, nil
}

// Range is a row of the response to /api/v1/keyviz/ranges.
type Range struct {
	Row
	End string `json:"end"`
	// Total is the sum of the counts, Share its share of the sum over all keys, PerSecond the mean rate.
	Total     float64 `json:"total"`
	Share     float64 `json:"share"`
	PerSecond float64 `json:"perSecond"`
}

// Ranges answers /api/v1/keyviz/ranges: the hottest rows of a heat map, hottest first.
func (h *Handler) Ranges(r *http.Request) (any, error) {
	top, err := number(r, "top")
	if err != nil {
		return nil, err
	}
	if top == 0 {
		top = topDefault
	}
	if top > topMax {
		return nil, fmt.Errorf("%w: top is %d: 1 to %d are allowed", ErrBadRequest, top, topMax)
	}
	m, err := h.load(r)
	if err != nil {
		return nil, err
	}
	rows := rowsOf(m)
	list, all := make([]Range, len(rows)), 0.0
	for i := range rows {
		list[i] = Range{Row: rows[i], End: encodeKey(m.End)}
		if i+1 < len(rows) {
			list[i].End = rows[i+1].Start
		}
		for c := range m.Values {
			if m.Metric.IsMax() {
				list[i].Total = max(list[i].Total, m.Values[c][i])
			} else {
				list[i].Total += m.Values[c][i]
			}
		}
		all += list[i].Total
	}
	times := m.TimesMs
	for i := range list {
		list[i].PerSecond = list[i].Total * scale(m, 0) / float64(len(times)-1)
		if m.Metric.IsMax() {
			list[i].PerSecond = 0
		}
		if all > 0 {
			list[i].Share = list[i].Total / all
		}
	}
	slices.SortStableFunc(list, func(a, b Range) int { return cmp.Compare(b.Total, a.Total) })
	return map[string]any{
		"metric": m.Metric.String(), "unit": m.Metric.Unit(), "start": seconds(times[0]), "end": seconds(times[len(times)-1]),
		"ranges": list[:min(top, len(list))],
	}, nil
}

// Cell answers /api/v1/keyviz/cell: all counts of the range that holds a key, at a time.
func (h *Handler) Cell(r *http.Request) (any, error) {
	if h.opts.Collector == nil {
		return nil, ErrOff
	}
	text := r.FormValue("t")
	if text == "" {
		return nil, fmt.Errorf("%w: t, the time of the cell, is missing", ErrBadRequest)
	}
	tMs, err := h.time("t", text)
	if err != nil {
		return nil, err
	}
	key, err := decodeKey("key", r.FormValue("key"))
	if err != nil {
		return nil, err
	}
	first, last := tenantKeys(r.Context())
	if key < first || last != "" && key >= last {
		return nil, fmt.Errorf("%w: the parameter key is not a key of the tenant", ErrBadRequest)
	}
	cell, found := h.opts.Collector.Cell(tMs, key)
	// A range across the border of a tenant would show the load of others.
	if !found || cell.Start < first || last != "" && (cell.End == "" || cell.End > last) {
		return map[string]any{"found": false}, nil
	}
	counts := make(map[string]float64, heat.Metrics)
	for m := range heat.Metric(heat.Metrics) {
		counts[m.String()] = cell.Counts[m]
	}
	counts[heat.ReadNanos.String()] /= 1e9
	counts[heat.ReadNanosMax.String()] /= 1e9
	return map[string]any{
		"found": true, "time": [2]float64{seconds(cell.StartMs), seconds(cell.StartMs + cell.SpanMs)},
		"key": keyText(cell.Start), "start": encodeKey(cell.Start), "end": encodeKey(cell.End), "labels": labelsOf(cell.Start),
		"counts": counts, "keys": sampled(cell.Keys),
	}, nil
}

func seconds(ms int64) float64 { return float64(ms) / 1000 }
