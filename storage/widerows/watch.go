package widerows

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"halite/storage"
)

// Options of a Watch. The zero value has the defaults.
type Options struct {
	// WriteBytesMin is the smallest size of a write that counts. Default WriteBytesMinDefault.
	WriteBytesMin int64
	// WideBytes is the size at which a row is wide. Default storage.WideRowBytes.
	WideBytes int64
	// MutationBytes is the size of a single write that also makes a row wide. Default: 1 % of storage.RowMutationBytesMax.
	MutationBytes int64
	// RowsMax bounds the rows that a Watch tracks. It evicts the narrowest first. Default RowsMaxDefault.
	RowsMax int
	// Age bounds the time since the last sizeable write of a row. The Watch drops an older row. Default AgeDefault.
	Age time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Registerer registers the metrics; nil means no registration.
	Registerer prometheus.Registerer
}

// Defaults of Options.
const (
	WriteBytesMinDefault = 64 << 10
	RowsMaxDefault       = 1024
	AgeDefault           = 24 * time.Hour
)

func (o *Options) validate() error {
	o.WriteBytesMin = cmp.Or(o.WriteBytesMin, WriteBytesMinDefault)
	o.WideBytes = cmp.Or(o.WideBytes, storage.WideRowBytes)
	o.MutationBytes = cmp.Or(o.MutationBytes, storage.RowMutationBytesMax/100)
	o.RowsMax = cmp.Or(o.RowsMax, RowsMaxDefault)
	o.Age = cmp.Or(o.Age, AgeDefault)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.WriteBytesMin < 0 || o.WideBytes < 0 || o.MutationBytes < 0 || o.RowsMax < 0 || o.Age < 0 {
		return errors.New("widerows: an option is negative")
	}
	return nil
}

// Row is a row with the bytes of its sizeable writes.
type Row struct {
	Key       string
	SizeBytes int64
}

// Watch finds wide rows. Its methods may be called concurrently.
type Watch struct {
	opts Options
	wide prometheus.Counter

	mu   sync.Mutex
	rows map[string]*row
}

type row struct {
	sizeBytes int64
	wide      bool
	last      time.Time
}

// New returns a Watch.
func New(o Options) (*Watch, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	w := &Watch{opts: o, rows: map[string]*row{}}
	r := promauto.With(o.Registerer)
	w.wide = r.NewCounter(prometheus.CounterOpts{
		Name: "tsdb_table_wide_rows_total",
		Help: "Rows of the data table with 1 % of the bytes that Bigtable allows in a row. " +
			"Rows with 1 % of the bytes that it allows in a write count too.",
	})
	r.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tsdb_table_widest_row_bytes",
		Help: "Bytes of the widest row of the data table that was written within a day, by its writes of 64 KiB or more.",
	}, func() float64 {
		if top := w.Widest(1); len(top) > 0 {
			return float64(top[0].SizeBytes)
		}
		return 0
	})
	return w, nil
}

// Widest returns the widest recently written rows, the widest first.
func (w *Watch) Widest(most int) []Row {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expire()
	list := make([]Row, 0, len(w.rows))
	for key, r := range w.rows {
		list = append(list, Row{key, r.sizeBytes})
	}
	slices.SortFunc(list, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.SizeBytes, a.SizeBytes), cmp.Compare(a.Key, b.Key))
	})
	return list[:min(most, len(list))]
}

// expire removes rows without a recent write. The caller holds mu.
func (w *Watch) expire() {
	first := w.opts.Now().Add(-w.opts.Age)
	for key, r := range w.rows {
		if r.last.Before(first) {
			delete(w.rows, key)
		}
	}
}

// note adds one write to a row.
func (w *Watch) note(m *storage.RowMutation) {
	sizeBytes := int64(0)
	for i := range m.Entries {
		sizeBytes += int64(len(m.Entries[i].Qualifier) + len(m.Entries[i].Value))
	}
	if sizeBytes < w.opts.WriteBytesMin {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.rows[string(m.Key)]
	if r == nil {
		w.evict()
		r = &row{}
		w.rows[string(m.Key)] = r
	}
	r.sizeBytes += sizeBytes
	r.last = w.opts.Now()
	if !r.wide && (r.sizeBytes >= w.opts.WideBytes || sizeBytes >= w.opts.MutationBytes) {
		r.wide = true
		w.wide.Inc()
	}
}

// evict makes room for one more row. It removes old rows, or else the narrower half. The caller holds mu.
func (w *Watch) evict() {
	if len(w.rows) < w.opts.RowsMax {
		return
	}
	if w.expire(); len(w.rows) < w.opts.RowsMax {
		return
	}
	sizes := make([]int64, 0, len(w.rows))
	for _, r := range w.rows {
		sizes = append(sizes, r.sizeBytes)
	}
	slices.Sort(sizes)
	middle := sizes[len(sizes)/2]
	for key, r := range w.rows {
		if r.sizeBytes <= middle && len(w.rows) > w.opts.RowsMax/2 {
			delete(w.rows, key)
		}
	}
}
