package compactor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/tombstone"
)

// Defaults of Options.
const (
	DelayDefault       = 15 * time.Minute
	MarkAfterDefault   = 5 * time.Minute
	ConcurrencyDefault = 16
	readRowsDefault    = 2048
)

// Index finds the rows of an hour. *index.Index implements it.
type Index interface {
	// Refresh reads what other processes have written.
	Refresh(ctx context.Context) error
	Select(ctx context.Context, budget index.Budget, mintMs, maxtMs int64, matchers ...*labels.Matcher) ([]index.Series, error)
}

// Options configure New. Data, Meta, Index, Schema and Sequence are required.
type Options struct {
	Data, Meta storage.Table
	Index      Index
	Schema     *keyschema.Schema
	// Sequence reserves n chunk numbers above a given one and returns the first. No two callers get the same number.
	Sequence func(ctx context.Context, n int, above uint32) (uint32, error)
	// Tombstones is the shared set of deletions; nil if deletions are not supported. Data must not hide the deleted samples.
	Tombstones *tombstone.Set
	// Delay is the time from the end of an hour until the hour is packed. It is also the age at which a deletion's samples
	// leave the rows. 0 means 15 minutes.
	Delay time.Duration
	// MarkAfter is the time from the end of an hour after which writers mark rows. It also bounds the time between reading
	// and writing a row. It must be less than Delay; 0 means 5 minutes.
	MarkAfter time.Duration
	// Concurrency is the number of rows written in parallel; 0 means 16.
	Concurrency int
	// ReadRowsMax is the number of rows in one read; 0 means 2048.
	ReadRowsMax int
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger logs for operators; nil discards all lines.
	Logger *slog.Logger
	// Registerer registers the metrics tsdb_compactor_…; nil means no registration.
	Registerer prometheus.Registerer
}

// Validate lists what is missing or out of range.
func (o Options) Validate() error {
	var errs []error
	if o.Data == nil || o.Meta == nil || o.Index == nil || o.Schema == nil || o.Sequence == nil {
		errs = append(errs, errors.New("compactor: Data, Meta, Index, Schema and Sequence are required"))
	}
	if o.Delay < 0 || o.MarkAfter < 0 || o.Concurrency < 0 || o.ReadRowsMax < 0 {
		errs = append(errs, errors.New("compactor: Delay, MarkAfter, Concurrency and ReadRowsMax must not be negative"))
	}
	if d := o.withDefaults(); d.MarkAfter >= d.Delay {
		errs = append(errs, fmt.Errorf("compactor: MarkAfter is %s, it must be less than Delay, %s", d.MarkAfter, d.Delay))
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	o.Delay, o.MarkAfter = cmp.Or(o.Delay, DelayDefault), cmp.Or(o.MarkAfter, MarkAfterDefault)
	o.Concurrency, o.ReadRowsMax = cmp.Or(o.Concurrency, ConcurrencyDefault), cmp.Or(o.ReadRowsMax, readRowsDefault)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Compactor packs closed hours. Call Run from one goroutine at a time.
type Compactor struct {
	opts                        Options
	rows, samples, bytes, beat  prometheus.Counter
	failures, marksTaken, notes prometheus.Counter
}

// New checks the options.
func New(opts Options) (*Compactor, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	f := promauto.With(opts.Registerer)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: "tsdb_compactor_" + name, Help: help})
	}
	return &Compactor{
		opts:       opts.withDefaults(),
		rows:       counter("rows_total", "Rows whose single samples became a chunk."),
		samples:    counter("samples_total", "Single samples that became part of a chunk."),
		bytes:      counter("bytes_total", "Bytes of the chunks written."),
		beat:       counter("conflicts_total", "Rows that a concurrent write changed; the next run packs them."),
		failures:   counter("failures_total", "Hours whose packing failed; the next run retries."),
		marksTaken: counter("marks_total", "Marks of late samples removed."),
		notes:      counter("hours_total", "Hours packed."),
	}, nil
}

// Run packs all hours that are due. An hour whose packing failed stays due.
func (p *Compactor) Run(ctx context.Context) error {
	due, err := p.due(ctx)
	if err != nil || len(due) == 0 {
		return err
	}
	// Writers add series to the index before they write notes. A refresh that already runs may miss a series, so refresh
	// twice.
	for range 2 {
		if err := p.opts.Index.Refresh(ctx); err != nil {
			return err
		}
	}
	var errs []error
	if err := p.giveUp(ctx); err != nil {
		errs = append(errs, err)
	}
	for _, n := range due {
		if err := p.hour(ctx, n); err != nil {
			p.failures.Inc()
			errs = append(errs, fmt.Errorf("pack hour %d: %w", n.hour, err))
		}
	}
	return errors.Join(errs...)
}

// due lists the hours with notes that ended long enough ago, oldest first.
func (p *Compactor) due(ctx context.Context) (due []noted, err error) {
	nowMs := p.opts.Now().UnixMilli()
	it := p.opts.Meta.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{
		{Start: []byte(notePrefix), End: []byte(noteEnd)},
	}}, storage.ReadOptions{Reverse: true, Filter: storage.Filter{Families: []string{storage.FamilyMeta}}})
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.Next() {
		n, err := parseNote(it.Row())
		if err != nil {
			return nil, err
		}
		if nowMs > keyschema.HourCellMs(n.hour)+p.opts.Delay.Milliseconds() {
			due = append(due, n)
		}
	}
	return due, it.Err()
}

// hour packs the rows of an hour and removes its notes.
func (p *Compactor) hour(ctx context.Context, n noted) error {
	start := time.Now() // measures a duration, not a time of the data
	from := keyschema.HourStartMs(n.hour)
	found, err := p.opts.Index.Select(ctx, nil, from, from+keyschema.HourMs-1)
	if err != nil {
		return err
	}
	keys := p.keys(found, n.hour)
	total, left := len(keys), int64(0)
	for len(keys) > 0 {
		some := keys[:min(len(keys), p.opts.ReadRowsMax)]
		keys = keys[len(some):]
		if !n.inTime {
			if some, err = p.unpacked(ctx, some, n.hour); err != nil {
				return err
			}
		}
		w := work{p: p, hour: n.hour}
		if err := w.do(ctx, some); err != nil {
			return err
		}
		left += int64(len(w.left))
	}
	p.opts.Logger.Info("hour packed", "hour", time.UnixMilli(from).UTC().Format(time.RFC3339), "rows", total,
		"left_for_later", left, "duration", time.Since(start).Round(time.Millisecond))
	if left > 0 && !n.inTime {
		return nil
	}
	if left > 0 { // the single samples of the other rows show them to the next run
		if err := p.opts.Meta.Apply(ctx, []storage.RowMutation{Note(n.hour, true)}); err != nil {
			return err
		}
	} else {
		p.notes.Inc()
	}
	return p.opts.Meta.Apply(ctx, []storage.RowMutation{n.done()})
}

// keys returns the sorted row keys of series in an hour.
func (p *Compactor) keys(found []index.Series, hour int64) [][]byte {
	keys := make([][]byte, 0, len(found))
	var tags []keyschema.Tag
	for i := range found {
		metric := ""
		tags = tags[:0]
		found[i].Labels.Range(func(l labels.Label) {
			if l.Name == model.MetricNameLabel {
				metric = l.Value
				return
			}
			tags = append(tags, keyschema.Tag{Name: l.Name, Value: l.Value})
		})
		key := p.opts.Schema.RuleAt(metric, hour).AppendPrefix(nil, metric, tags)
		keys = append(keys, keyschema.AppendHour(key, hour))
	}
	slices.SortFunc(keys, bytes.Compare)
	return keys
}

// filter returns the filter for cells of an hour whose qualifiers are at least start.
func filter(hour int64, start []byte) storage.Filter {
	return storage.Filter{
		Families: []string{storage.FamilySamples}, QualifierStart: start, VersionsMax: 1,
		FromMs: keyschema.HourCellMs(hour), ToMs: keyschema.HourCellMs(hour) + 1,
	}
}

// unpacked returns the keys of rows with single samples or marks.
func (p *Compactor) unpacked(ctx context.Context, keys [][]byte, hour int64) (out [][]byte, err error) {
	f := filter(hour, keyschema.AppendMarkQualifier(nil, 0))
	f.KeysOnly = true
	it := p.opts.Data.ReadRows(ctx, storage.RowSet{Keys: keys}, storage.ReadOptions{Filter: f})
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.Next() {
		out = append(out, bytes.Clone(it.Row().Key))
	}
	return out, it.Err()
}
