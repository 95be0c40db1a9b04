package index

import (
	"fmt"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
)

// loaderMetricsMax bounds the metrics that a Loader remembers.
const loaderMetricsMax = 1 << 16

// Loader adds many series in turn, as Index.Add does, in less time. It remembers tables, columns and the values used last,
// because series that follow each other share most of them. It is for one goroutine, and Index.Maintain must not run
// meanwhile.
type Loader struct {
	x       *Index
	hour    int64
	metrics map[string]*loaderMetric
	dicts   map[string]*loaderDict
	ids     []uint32
}

// loaderMetric is a metric with the columns of the series added last.
type loaderMetric struct {
	table   *table
	columns []loaderColumn
}

type loaderColumn struct {
	dict *loaderDict
	pos  int
}

// loaderDict is a dictionary with the value used last.
type loaderDict struct {
	*dictionary
	value string
	id    uint32
}

// NewLoader returns a loader for series that are not retired before the present hour has become idle.
func (x *Index) NewLoader() *Loader {
	return &Loader{
		x: x, hour: keyschema.HourOf(max(0, x.opts.Now().UnixMilli())),
		metrics: map[string]*loaderMetric{}, dicts: map[string]*loaderDict{},
	}
}

// Add is Index.Add of labels in a slice, which the caller may reuse.
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
				l.x.metrics.added.Inc()
			}
			return ref, err
		}
		m.table.mu.Unlock()
		delete(l.metrics, metric)
	}
}

// metric returns what is remembered of a metric.
func (l *Loader) metric(metric string) *loaderMetric {
	m := l.metrics[metric]
	if m == nil {
		if len(l.metrics) == loaderMetricsMax {
			clear(l.metrics)
		}
		m = &loaderMetric{table: l.x.cat.tableFor(metric)}
		l.metrics[m.table.metric] = m
	}
	return m
}

// addTo adds a series to its metric; the caller holds the table's lock.
func (l *Loader) addTo(m *loaderMetric, ls []labels.Label) (Ref, bool, error) {
	t, used := m.table, 0
	known := len(*t.columns.Load())
	if known+len(ls) > columnsMax {
		return 0, false, fmt.Errorf("%w: metric %s has more than %d label names", ErrBadLabels, t.metric, columnsMax)
	}
	l.ids = append(l.ids[:0], make([]uint32, known)...)
	for n := range ls {
		label := &ls[n]
		if label.Name == model.MetricNameLabel || label.Value == "" {
			continue
		}
		if used == len(m.columns) || m.columns[used].dict.name != label.Name {
			m.columns = append(m.columns[:used], l.column(t, label.Name))
		}
		c := m.columns[used]
		used++
		if c.pos == len(l.ids) {
			l.ids = append(l.ids, 0)
		}
		if c.dict.value != label.Value {
			c.dict.id = c.dict.intern(label.Value)
			c.dict.value = c.dict.dictionary.value(c.dict.id)
		}
		l.ids[c.pos] = c.dict.id
	}
	return l.x.cat.addRow(t, l.ids, l.hour)
}

// column returns a label's column of a table, and makes it if it is new.
func (l *Loader) column(t *table, name string) loaderColumn {
	pos := t.columnOf(name, l.x.cat.dict)
	dict := (*t.columns.Load())[pos].dict
	d := l.dicts[name]
	if d == nil || d.dictionary != dict {
		d = &loaderDict{dictionary: dict}
		l.dicts[dict.name] = d
	}
	return loaderColumn{dict: d, pos: pos}
}

// checkPairs is checkLabels of labels in a slice.
func checkPairs(ls []labels.Label) (metric string, err error) {
	for n := range ls {
		if ls[n].Name == model.MetricNameLabel {
			metric = ls[n].Value
		}
	}
	ok := metric != "" && len(metric) <= keyschema.MetricBytesMax
	for n := range ls {
		ok = ok && ls[n].Name != "" && len(ls[n].Name) <= labelNameBytesMax && len(ls[n].Value) <= labelValueBytesMax &&
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
