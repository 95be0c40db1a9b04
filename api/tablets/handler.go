package tablets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/keyviz"
	"halite/storage/keyviz/heat"
	"halite/storage/tabletevents"
)

// window is the time of the load and the history if a request names none.
const window = time.Hour

// Source lists tables and their tablets; every storage.Store is one.
type Source interface {
	Tables(ctx context.Context) ([]storage.TableSchema, error)
	Table(ctx context.Context, name string) (storage.Table, error)
}

// Options of a Handler. ParseTime, KeyText and Now are required.
type Options struct {
	// Source lists the tablets; nil lists none.
	Source Source
	// Keyviz has the load of table data; nil leaves it out.
	Keyviz *keyviz.Collector
	// HotTablets lists the hot tablets that the service of the engine reports; nil leaves them out.
	HotTablets func(ctx context.Context, fromMs, toMs int64) ([]storage.HotTablet, error)
	// Events has the history; nil means that there is none.
	Events *tabletevents.Log
	// ParseTime parses a time, and KeyText writes a row key as text.
	ParseTime func(text string) (time.Time, error)
	KeyText   func(key []byte) string
	Now       func() time.Time
	// SeriesMax bounds the tablets whose load is shown by time: those with the most load. Default SeriesMaxDefault.
	SeriesMax int
}

// SeriesMaxDefault is the default of Options.SeriesMax.
const SeriesMaxDefault = 50

// Response is the response. Keys are text.
type Response struct {
	// StartMs and EndMs bound load and history, milliseconds since 1970.
	StartMs int64 `json:"startMs"`
	EndMs   int64 `json:"endMs"`
	// TimesMs are the starts of the columns of all series, and the end of the last column.
	TimesMs []int64 `json:"timesMs"`
	Tables  []Table `json:"tables"`
	Events  []Event `json:"events"`
	// HotTablets are those that the service of the engine reports; nil if it reports none.
	HotTablets *HotTablets `json:"hotTablets,omitempty"`
}

// HotTablets is what the service reports, or why it does not.
type HotTablets struct {
	// Tablets are in descending order of their load.
	Tablets []HotTablet `json:"tablets"`
	// Error says why the list is empty, and what to do.
	Error string `json:"error,omitempty"`
}

// HotTablet is a tablet that took much of the CPU of a node.
type HotTablet struct {
	Table string `json:"table"`
	// StartKey and EndKey are the first and the last row.
	StartKey string `json:"startKey"`
	EndKey   string `json:"endKey"`
	// StartMs and EndMs bound the time of the load, milliseconds since 1970.
	StartMs int64 `json:"startMs"`
	EndMs   int64 `json:"endMs"`
	// CPUPercent is the average share of the CPU of a node, 0 to 100.
	CPUPercent float64 `json:"cpuPercent"`
}

// Table is a table with its tablets.
type Table struct {
	Name    string   `json:"name"`
	Tablets []Tablet `json:"tablets"`
}

// Tablet is a range of row keys; an empty End is the end of the table. The counters begin with the tablet or with the server.
type Tablet struct {
	Start        string `json:"start"`
	End          string `json:"end"`
	SizeBytes    uint64 `json:"sizeBytes"`
	RowsWritten  uint64 `json:"rowsWritten"`
	RowsRead     uint64 `json:"rowsRead"`
	BytesWritten uint64 `json:"bytesWritten"`
	BytesRead    uint64 `json:"bytesRead"`
	// Load is the load within the time of the response, of table data only.
	Load *Load `json:"load,omitempty"`
	// Series is the load in each column, of the tablets with the most load.
	Series *Series `json:"series,omitempty"`
}

// Load is what the key heat map has counted. A range of the map that lies in several tablets spreads evenly over them.
type Load struct {
	CellsWritten float64 `json:"cellsWritten"`
	RowsWritten  float64 `json:"rowsWritten"`
	BytesWritten float64 `json:"bytesWritten"`
	RowsRead     float64 `json:"rowsRead"`
	BytesRead    float64 `json:"bytesRead"`
	ReadSeconds  float64 `json:"readSeconds"`
	Errors       float64 `json:"errors"`
}

// Series has the counts of Load for each column.
type Series struct {
	CellsWritten []float64 `json:"cellsWritten"`
	RowsWritten  []float64 `json:"rowsWritten"`
	BytesWritten []float64 `json:"bytesWritten"`
	RowsRead     []float64 `json:"rowsRead"`
	BytesRead    []float64 `json:"bytesRead"`
	ReadSeconds  []float64 `json:"readSeconds"`
	Errors       []float64 `json:"errors"`
}

// Event is a split, merge or move.
type Event struct {
	TMs    int64  `json:"tMs"`
	Kind   string `json:"kind"`
	Table  string `json:"table"`
	Key    string `json:"key"`
	Reason string `json:"reason"`
}

// Handler answers requests.
type Handler struct{ opts Options }

// New returns a Handler.
func New(o Options) *Handler {
	o.SeriesMax = cmp.Or(o.SeriesMax, SeriesMaxDefault)
	return &Handler{o}
}

// Respond answers a request with the parameters start and end. The form of the request is parsed. The error wraps
// keyviz.ErrBadRequest if the parameters are invalid.
func (h *Handler) Respond(r *http.Request) (any, error) {
	a, err := h.times(r)
	if err != nil {
		return nil, err
	}
	if err := h.addTables(r.Context(), a); err != nil {
		return nil, fmt.Errorf("list tablets: %w", err)
	}
	events, err := h.opts.Events.List(r.Context(), a.StartMs, a.EndMs)
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		a.Events = append(a.Events, Event{e.TMs, e.Kind, e.Table, h.opts.KeyText(e.Key), e.Reason})
	}
	h.addHotTablets(r.Context(), a)
	return a, nil
}

// addHotTablets adds the report of the service. Its failure leaves the rest of the response useful.
func (h *Handler) addHotTablets(ctx context.Context, a *Response) {
	if h.opts.HotTablets == nil {
		return
	}
	a.HotTablets = &HotTablets{Tablets: []HotTablet{}}
	list, err := h.opts.HotTablets(ctx, a.StartMs, a.EndMs)
	if err != nil {
		a.HotTablets.Error = err.Error()
		return
	}
	for _, t := range list {
		a.HotTablets.Tablets = append(a.HotTablets.Tablets, HotTablet{
			t.Table, h.opts.KeyText(t.StartKey), h.opts.KeyText(t.EndKey), t.FromMs, t.ToMs, t.CPUPercent,
		})
	}
}

// times returns a response with the times of a request.
func (h *Handler) times(r *http.Request) (*Response, error) {
	end := h.opts.Now().Add(time.Millisecond)
	a := &Response{EndMs: end.UnixMilli(), TimesMs: []int64{}, Tables: []Table{}, Events: []Event{}}
	parse := func(name string, into *int64) error {
		text := r.FormValue(name)
		if text == "" {
			return nil
		}
		t, err := h.opts.ParseTime(text)
		if err == nil && (t.UnixMilli() < 1 || t.UnixMilli() > keyschema.TimeMaxMs) {
			err = errors.New("it is before 1970 or after the last hour that keys can hold")
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", keyviz.ErrBadRequest, name, err)
		}
		*into = t.UnixMilli()
		return nil
	}
	if err := parse("end", &a.EndMs); err != nil {
		return nil, err
	}
	a.StartMs = max(1, a.EndMs-window.Milliseconds())
	if err := parse("start", &a.StartMs); err != nil {
		return nil, err
	}
	if a.StartMs >= a.EndMs {
		return nil, fmt.Errorf("%w: start must be before end", keyviz.ErrBadRequest)
	}
	return a, nil
}

func (h *Handler) addTables(ctx context.Context, a *Response) error {
	if h.opts.Source == nil {
		return nil
	}
	schemas, err := h.opts.Source.Tables(ctx)
	if err != nil {
		return err
	}
	for _, schema := range schemas {
		table, err := h.opts.Source.Table(ctx, schema.Name)
		if err != nil {
			return err
		}
		tablets, err := table.Tablets(ctx)
		if err != nil {
			return err
		}
		list := make([]Tablet, len(tablets))
		for i, t := range tablets {
			list[i] = Tablet{
				Start: h.opts.KeyText(t.Range.Start), End: h.opts.KeyText(t.Range.End), SizeBytes: t.SizeBytes, RowsWritten: t.RowsWritten,
				RowsRead: t.RowsRead, BytesWritten: t.BytesWritten, BytesRead: t.BytesRead,
			}
		}
		if schema.Name == storage.TableData {
			if err := h.addLoad(ctx, a, tablets, list); err != nil {
				return err
			}
		}
		a.Tables = append(a.Tables, Table{schema.Name, list})
	}
	return nil
}

// addLoad adds the load of the tablets.
func (h *Handler) addLoad(ctx context.Context, a *Response, tablets []storage.Tablet, list []Tablet) error {
	if h.opts.Keyviz == nil || len(tablets) == 0 {
		return nil
	}
	starts := make([]string, len(tablets))
	for i, t := range tablets {
		starts[i] = string(t.Range.Start)
	}
	starts[0] = "" // all keys belong to a tablet
	load, err := h.opts.Keyviz.Load(ctx, keyviz.LoadRequest{
		FromMs: a.StartMs, ToMs: a.EndMs, Starts: starts, SeriesMax: h.opts.SeriesMax,
	})
	if err != nil {
		return fmt.Errorf("read the load: %w", err)
	}
	a.TimesMs = load.TimesMs
	for i := range list {
		sum := loadOf(&load.Counts[i])
		list[i].Load = &sum
		if load.Series[i] != nil {
			list[i].Series = seriesOf(load.Series[i])
		}
	}
	return nil
}

func loadOf(c *heat.Counts) Load {
	return Load{
		CellsWritten: c[heat.WriteCells], RowsWritten: c[heat.WriteRows], BytesWritten: c[heat.WriteBytes],
		RowsRead: c[heat.ReadRows], BytesRead: c[heat.ReadBytes],
		ReadSeconds: time.Duration(c[heat.ReadNanos]).Seconds(), Errors: c[heat.Errors],
	}
}

func seriesOf(columns []heat.Counts) *Series {
	s := &Series{}
	for i := range columns {
		l := loadOf(&columns[i])
		s.CellsWritten, s.RowsWritten = append(s.CellsWritten, l.CellsWritten), append(s.RowsWritten, l.RowsWritten)
		s.BytesWritten, s.RowsRead = append(s.BytesWritten, l.BytesWritten), append(s.RowsRead, l.RowsRead)
		s.BytesRead, s.ReadSeconds = append(s.BytesRead, l.BytesRead), append(s.ReadSeconds, l.ReadSeconds)
		s.Errors = append(s.Errors, l.Errors)
	}
	return s
}
