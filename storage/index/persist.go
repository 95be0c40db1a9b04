package index

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/envelope"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
	"halite/storage/index/valueid"
)

// Persist writes what the tables do not hold yet of the touches made before the call: new series of a day once, their
// hours whenever there are new ones. It is durable after the caller's Store.Sync. If it fails, whatever was not written
// stays due; call it again.
func (x *Index) Persist(ctx context.Context) error {
	x.maint.Lock()
	defer x.maint.Unlock()
	for _, d := range x.open.All() {
		if err := x.persistDay(ctx, d); err != nil {
			return fmt.Errorf("index: persist day %d: %w", d.Day, err)
		}
	}
	return nil
}

func (x *Index) persistDay(ctx context.Context, d *memory.OpenDay) (err error) {
	if !d.IsDirty() {
		return nil
	}
	if err := x.placeJournal(ctx, d); err != nil {
		return err
	}
	enc := partEncoder{active: x.active}
	defer enc.packer.close()
	return d.EachUnwritten(x.store.Layout.PartRows*persistParts, func(due memory.Due) error {
		return x.persistSeries(ctx, d, &enc, due)
	})
}

// persistParts is the number of parts whose series are listed at a time: a list of all series of a large day would take
// hundreds of megabytes.
const persistParts = 16

// persistSeries writes parts with the series. Those not written stay due after an error.
func (x *Index) persistSeries(ctx context.Context, d *memory.OpenDay, enc *partEncoder, due memory.Due) error {
	byRow := func(a, b memory.Unwritten) int { return cmp.Compare(a.Row, b.Row) }
	if !slices.IsSortedFunc(due.Known, byRow) {
		slices.SortFunc(due.Known, byRow)
	}
	for due.Len() > 0 {
		taken := due.Fresh[:min(len(due.Fresh), x.store.Layout.PartRows)]
		updated := due.Known[:min(len(due.Known), x.store.Layout.PartRuns)]
		if err := x.writePart(ctx, d, enc, taken, updated); err != nil {
			d.Settle(due.Fresh, true)
			d.Settle(due.Known, true)
			return err
		}
		d.Settle(taken, false)
		d.Settle(updated, false)
		due.Fresh, due.Known = due.Fresh[len(taken):], due.Known[len(updated):]
	}
	return nil
}

// placeJournal continues behind the parts that the day's segment already contains. Parts of several writers need no such
// place.
func (x *Index) placeJournal(ctx context.Context, d *memory.OpenDay) error {
	if d.Journal.Known || x.shared() {
		return nil
	}
	seq, err := x.journalEnd(ctx, d.Day)
	if err != nil {
		return err
	}
	d.Journal = memory.JournalState{Known: true, First: seq, Seq: seq}
	return nil
}

func (x *Index) writePart(ctx context.Context, d *memory.OpenDay, enc *partEncoder, fresh, known []memory.Unwritten) error {
	base, key := d.Journal.Rows, segment.JournalKey(d.Day, d.Journal.Seq)
	if x.shared() {
		base, key = 0, x.nextPartKey(d.Day)
	}
	p := enc.encode(base, fresh, known)
	if len(enc.long) > 0 {
		if err := x.meta.Apply(ctx, enc.long); err != nil {
			return fmt.Errorf("label sets too long for a row key: %w", err)
		}
	}
	qualifier := []byte{segment.QualPart}
	enc.payload = appendPart(enc.payload[:0], p)
	blob, err := enc.packer.blob(enc.payload)
	if err != nil {
		return err
	}
	blob = envelope.Seal(blob, key, qualifier)
	if err := x.store.SeriesTable.Apply(ctx, []storage.RowMutation{{Key: key, Entries: []storage.Entry{{
		Kind: storage.SetCell, Family: storage.FamilyIndex, Qualifier: qualifier, TsMs: presence.DayCellMs(d.Day), Value: blob,
	}}}}); err != nil {
		return err // the same sequence number is written again, whether this attempt reached the table or not
	}
	x.metrics.parts.Inc()
	x.metrics.partBytes.Add(float64(len(blob)))
	if x.shared() {
		return nil // each part stands for itself
	}
	for _, r := range enc.order {
		d.SetRow(r.Ref, r.Row)
	}
	d.Journal.Seq++
	d.Journal.Rows += p.rows
	return nil
}

// partEncoder turns active series into parts, reusing its tables of ids.
type partEncoder struct {
	active  *memory.Index
	packer  partPacker
	payload []byte

	part  *part
	dicts map[*memory.Dictionary]*partDict
	order []memory.Unwritten    // the fresh series with their rows, after encode
	long  []storage.RowMutation // label sets to store beside the part
}

// partDict gives the ids of an active dictionary part-local ones.
type partDict struct {
	name  int
	local []uint32 // by active id; 0 = not in the part yet
	used  []uint32
}

func (e *partEncoder) encode(base uint32, fresh, known []memory.Unwritten) *part {
	e.part = &part{base: base, rows: uint32(len(fresh))}
	e.order, e.long = e.order[:0], nil
	for d, pd := range e.dicts {
		if len(pd.used) == 0 {
			delete(e.dicts, d) // not needed by the part before: let go of its memory
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
	runs = append(append(runs, known...), e.order...) // known rows come before fresh ones
	for _, u := range runs {
		e.part.addHours(u.Row-1, u.Hours)
	}
	return e.part
}

func (p *part) addHours(row, hours uint32) {
	if k := len(p.runs) - 1; k >= 0 && p.runs[k].hours == hours && p.runs[k].row+p.runs[k].count == row {
		p.runs[k].count++
		return
	}
	p.runs = append(p.runs, hourRun{row: row, count: 1, hours: hours})
}

// tableGroup is the fresh series of one metric with their rows in its table.
type tableGroup struct {
	t      *memory.Table
	series []memory.Unwritten
	rows   []uint32
}

// byTable groups series by metric, ordered by metric. Series of open days are not retired, and tables are moved under
// the lock that Persist holds, so places hold still.
func (e *partEncoder) byTable(fresh []memory.Unwritten) []*tableGroup {
	groups := map[*memory.Table]*tableGroup{}
	var out []*tableGroup
	for _, u := range fresh {
		t, row, ok := e.active.Place(u.Ref)
		if !ok {
			e.part.rows-- // touched after it was retired: nothing is known of it
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

func (e *partEncoder) metric(g *tableGroup) {
	var v memory.View
	v.Load(g.t)
	m := partMetric{metric: g.t.Metric, rows: uint32(len(g.rows))}
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
		m.columns = append(m.columns, partColumn{name: pd.name, ids: valueid.Pack(ids)})
	}
	slices.SortFunc(m.columns, func(a, b partColumn) int { return a.name - b.name })
	e.part.metrics = append(e.part.metrics, m)
	next := e.part.base + uint32(len(e.order))
	for i, u := range g.series {
		next++
		e.order = append(e.order, memory.Unwritten{Ref: u.Ref, Row: next, Hours: u.Hours})
		e.checkLong(&v, g.rows[i])
	}
}

func (e *partEncoder) dict(d *memory.Dictionary) *partDict {
	if e.dicts == nil {
		e.dicts = map[*memory.Dictionary]*partDict{}
	}
	pd := e.dicts[d]
	if pd == nil {
		pd = &partDict{name: -1}
		e.dicts[d] = pd
	}
	if pd.name < 0 {
		pd.name = len(e.part.names)
		e.part.names = append(e.part.names, partName{name: d.Name})
	}
	return pd
}

func (e *partEncoder) localID(pd *partDict, d *memory.Dictionary, id uint32) uint32 {
	if id == 0 {
		return 0
	}
	if int(id) >= len(pd.local) {
		grown := make([]uint32, max(int(id), int(d.Len()))+1)
		copy(grown, pd.local)
		pd.local = grown
	}
	if pd.local[id] == 0 {
		n := &e.part.names[pd.name]
		n.values = append(n.values, d.Value(id))
		pd.local[id] = uint32(len(n.values))
		pd.used = append(pd.used, id)
	}
	return pd.local[id]
}

// checkLong queues the label set for TableMeta if some rule, that of a later hour of the day included, hashes it instead of
// spelling it in row keys.
func (e *partEncoder) checkLong(v *memory.View, row uint32) {
	if !perhapsLong(v, row) {
		return
	}
	tags := v.Tags(nil, row)
	if hash, long := keyschema.MayBeLong(v.Metric(), tags); long {
		e.long = append(e.long, labelSetMutation(hash, tags))
	}
}

// perhapsLong reports whether some rule may hash the row's label set: escaping at most triples a text.
func perhapsLong(v *memory.View, row uint32) bool {
	size := len(v.Metric())
	for pos, c := range v.Columns {
		if id := v.Data[pos].At(row); id != 0 {
			size += len(c.Dict.Name) + len(c.Dict.Value(id)) + 2
		}
	}
	return size*3+64 >= keyschema.KeyBytesMax
}

// labelSetMutation stores a label set under its hash, for reading row keys that hold only the hash.
func labelSetMutation(hash string, tags []keyschema.Tag) storage.RowMutation {
	key, qualifier := segment.LabelSetKey(hash), []byte{segment.QualTagList}
	blob := binary.AppendUvarint(envelope.New(envelope.FormatV1, 256), uint64(len(tags)))
	for _, t := range tags {
		blob = envelope.AppendText(envelope.AppendText(blob, t.Name), t.Value)
	}
	return storage.RowMutation{Key: key, Entries: []storage.Entry{{
		Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: qualifier, Value: envelope.Seal(blob, key, qualifier),
	}}}
}

// parseLabelSet reads the payload of a label set row.
func parseLabelSet(payload []byte) ([]keyschema.Tag, error) {
	c := &envelope.Decoder{Rest: payload}
	n := c.Count(2)
	tags := make([]keyschema.Tag, 0, n)
	for range n {
		t := keyschema.Tag{Name: string(c.Text()), Value: string(c.Text())}
		if k := len(tags); c.Err == nil && k > 0 && tags[k-1].Name >= t.Name {
			return nil, envelope.ErrOrder
		}
		tags = append(tags, t)
	}
	return tags, c.End()
}
