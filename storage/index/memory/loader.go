package memory

import (
	"fmt"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
)

// loaderMetricsMax bounds the metrics that a Loader caches.
const loaderMetricsMax = 1 << 16

// Loader adds many series one by one. It is faster than Index.Add. It caches tables, columns and the last values, because
// consecutive series share most of them. Only one goroutine may use it, and Index.Maintain must not run at the same time.
type Loader struct {
	cat     *Index
	added   func() // called for each new series
	hour    int64
	metrics map[string]*loaderMetric
	dicts   map[string]*loaderDict
	ids     []uint32
}

// loaderMetric is a metric with the columns of its last series.
type loaderMetric struct {
	table   *Table
	columns []loaderColumn
}

type loaderColumn struct {
	dict *loaderDict
	pos  int
}

// loaderDict is a dictionary with its last value.
type loaderDict struct {
	*Dictionary
	value string
	id    uint32
}

// NewLoader returns a loader. Its series are not retired while the hour counts as active.
func NewLoader(cat *Index, hour int64, added func()) *Loader {
	return &Loader{cat: cat, added: added, hour: hour, metrics: map[string]*loaderMetric{}, dicts: map[string]*loaderDict{}}
}

// Add is Index.Add for labels in a slice, which the caller may reuse.
func (l *Loader) Add(ls []labels.Label) (Ref, error) {
	metric, err := checkPairs(ls)
	if err != nil {
		return 0, err
	}
	for {
		m := l.metric(metric)
		m.table.mu.Lock()
		if !m.table.replaced {
			ref, created, err := l.addTo(m, ls)
			m.table.mu.Unlock()
			if created {
				l.added()
			}
			return ref, err
		}
		m.table.mu.Unlock()
		delete(l.metrics, metric)
	}
}

// metric returns the cache of a metric.
func (l *Loader) metric(metric string) *loaderMetric {
	m := l.metrics[metric]
	if m == nil {
		if len(l.metrics) == loaderMetricsMax {
			clear(l.metrics)
		}
		m = &loaderMetric{table: l.cat.tableFor(metric)}
		l.metrics[m.table.Metric] = m
	}
	return m
}

// addTo adds a series to its metric. The caller holds the table's lock.
func (l *Loader) addTo(m *loaderMetric, ls []labels.Label) (Ref, bool, error) {
	t, used := m.table, 0
	known := len(*t.columns.Load())
	if known+len(ls) > ColumnsMax {
		return 0, false, fmt.Errorf("%w: metric %s has more than %d label names", ErrBadLabels, t.Metric, ColumnsMax)
	}
	l.ids = append(l.ids[:0], make([]uint32, known)...)
	for n := range ls {
		label := &ls[n]
		if label.Name == model.MetricNameLabel || label.Value == "" {
			continue
		}
		if used == len(m.columns) || m.columns[used].dict.Name != label.Name {
			m.columns = append(m.columns[:used], l.column(t, label.Name))
		}
		c := m.columns[used]
		used++
		if c.pos == len(l.ids) {
			l.ids = append(l.ids, 0)
		}
		if c.dict.value != label.Value {
			c.dict.id = c.dict.Intern(label.Value)
			c.dict.value = c.dict.Dictionary.Value(c.dict.id)
		}
		l.ids[c.pos] = c.dict.id
	}
	return l.cat.addRow(t, l.ids, l.hour)
}

// column returns a label's column of a table and adds a missing one.
func (l *Loader) column(t *Table, name string) loaderColumn {
	pos := t.columnOf(name, l.cat.Dict)
	dict := (*t.columns.Load())[pos].Dict
	d := l.dicts[name]
	if d == nil || d.Dictionary != dict {
		d = &loaderDict{Dictionary: dict}
		l.dicts[dict.Name] = d
	}
	return loaderColumn{dict: d, pos: pos}
}

// checkPairs is checkLabels for labels in a slice.
func checkPairs(ls []labels.Label) (metric string, err error) {
	for n := range ls {
		if ls[n].Name == model.MetricNameLabel {
			metric = ls[n].Value
		}
	}
	ok := metric != "" && len(metric) <= keyschema.MetricBytesMax
	for n := range ls {
		ok = ok && ls[n].Name != "" && len(ls[n].Name) <= LabelNameBytesMax && len(ls[n].Value) <= LabelValueBytesMax &&
			(n == 0 || strings.Compare(ls[n-1].Name, ls[n].Name) < 0)
	}
	if ok {
		return metric, nil
	}
	set := labels.New(ls...)
	if err := checkLabels(set.Get(model.MetricNameLabel), set); err != nil {
		return "", err
	}
	return "", fmt.Errorf("%w: label names do not ascend in %s", ErrBadLabels, set)
}
