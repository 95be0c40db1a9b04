package journal

import (
	"slices"
	"strings"

	"halite/storage"
	"halite/storage/index/memory"
	"halite/storage/index/valueid"
)

// encoder encodes active series as records. It reuses its tables of ids.
type encoder struct {
	active  *memory.Index
	packer  packer
	payload []byte

	record *record
	dicts  map[*memory.Dictionary]*localDict
	order  []memory.Unwritten    // the fresh series with their rows, after encode
	long   []storage.RowMutation // label sets to store together with the record
}

// localDict maps the ids of an active dictionary to the ids in a record.
type localDict struct {
	name  int
	local []uint32 // by active id; 0 = not in the record yet
	used  []uint32
}

func (e *encoder) encode(base uint32, fresh, known []memory.Unwritten) *record {
	e.record = &record{base: base, rows: uint32(len(fresh))}
	e.order, e.long = e.order[:0], nil
	for d, pd := range e.dicts {
		if len(pd.used) == 0 {
			delete(e.dicts, d) // the previous record did not need it, so free its memory
			continue
		}
		for _, id := range pd.used {
			pd.local[id] = 0
		}
		pd.used, pd.name = pd.used[:0], -1
	}
	for _, group := range e.byTable(fresh) {
		e.metric(group)
	}
	runs := make([]memory.Unwritten, 0, len(known)+len(fresh))
	runs = append(append(runs, known...), e.order...) // in the order of rows
	for _, u := range runs {
		e.record.addHours(u.Row-1, u.Hours)
	}
	return e.record
}

// textBytes is the size of the label values in the record and of the label sets stored with it.
func (e *encoder) textBytes() (sizeBytes int) {
	for _, name := range e.record.names {
		for _, value := range name.values {
			sizeBytes += len(value)
		}
	}
	for _, m := range e.long {
		sizeBytes += len(m.Entries[0].Value)
	}
	return sizeBytes
}

func (r *record) addHours(row, hours uint32) {
	if k := len(r.runs) - 1; k >= 0 && r.runs[k].hours == hours && r.runs[k].row+r.runs[k].count == row {
		r.runs[k].count++
		return
	}
	r.runs = append(r.runs, hourRun{row: row, count: 1, hours: hours})
}

// tableGroup is the fresh series of one metric with their rows in its table.
type tableGroup struct {
	t      *memory.Table
	series []memory.Unwritten
	rows   []uint32
}

// byTable groups series by metric, in the order of metrics. The rows of the series cannot change during the call. Series
// of open days are not retired, and the caller's lock prevents the replacement of tables.
func (e *encoder) byTable(fresh []memory.Unwritten) []*tableGroup {
	groups := map[*memory.Table]*tableGroup{}
	var out []*tableGroup
	for _, u := range fresh {
		t, row, ok := e.active.Place(u.Ref)
		if !ok {
			e.record.rows-- // the caller marked the series active after its retirement
			continue
		}
		g := groups[t]
		if g == nil {
			g = &tableGroup{t: t}
			groups[t] = g
			out = append(out, g)
		}
		g.series, g.rows = append(g.series, u), append(g.rows, row)
	}
	slices.SortFunc(out, func(a, b *tableGroup) int { return strings.Compare(a.t.Metric, b.t.Metric) })
	return out
}

func (e *encoder) metric(g *tableGroup) {
	var v memory.View
	v.Load(g.t)
	m := recordMetric{metric: g.t.Metric, rows: uint32(len(g.rows))}
	ids := make([]uint32, len(g.rows))
	for pos, col := range v.Columns {
		any := uint32(0)
		for i, row := range g.rows {
			ids[i] = v.Data[pos].At(row)
			any |= ids[i]
		}
		if any == 0 {
			continue
		}
		pd := e.dict(col.Dict)
		for i, id := range ids {
			ids[i] = e.localID(pd, col.Dict, id)
		}
		m.columns = append(m.columns, recordColumn{name: pd.name, ids: valueid.Pack(ids)})
	}
	slices.SortFunc(m.columns, func(a, b recordColumn) int { return a.name - b.name })
	e.record.metrics = append(e.record.metrics, m)
	next := e.record.base + uint32(len(e.order))
	for i, u := range g.series {
		next++
		e.order = append(e.order, memory.Unwritten{Ref: u.Ref, Row: next, Hours: u.Hours})
		e.checkLong(&v, g.rows[i])
	}
}

func (e *encoder) dict(d *memory.Dictionary) *localDict {
	if e.dicts == nil {
		e.dicts = map[*memory.Dictionary]*localDict{}
	}
	pd := e.dicts[d]
	if pd == nil {
		pd = &localDict{name: -1}
		e.dicts[d] = pd
	}
	if pd.name < 0 {
		pd.name = len(e.record.names)
		e.record.names = append(e.record.names, recordName{name: d.Name})
	}
	return pd
}

func (e *encoder) localID(pd *localDict, d *memory.Dictionary, id uint32) uint32 {
	if id == 0 {
		return 0
	}
	if int(id) >= len(pd.local) {
		grown := make([]uint32, max(int(id), int(d.Len()))+1)
		copy(grown, pd.local)
		pd.local = grown
	}
	if pd.local[id] == 0 {
		n := &e.record.names[pd.name]
		n.values = append(n.values, d.Value(id))
		pd.local[id] = uint32(len(n.values))
		pd.used = append(pd.used, id)
	}
	return pd.local[id]
}
