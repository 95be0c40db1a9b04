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
	"halite/storage/index/presence"
	"halite/storage/index/valueid"
)

// unwritten is a series of a day whose hours the journal lacks.
type unwritten struct {
	ref   Ref
	row   uint32 // journal row plus one, 0 if it has none
	hours uint32
}

// Persist writes what the tables do not hold yet of the touches made before the call: new series of a day once, their
// hours whenever there are new ones. It is durable after the caller's Store.Sync. If it fails, whatever was not written
// stays due; call it again.
func (x *Index) Persist(ctx context.Context) error {
	x.maint.Lock()
	defer x.maint.Unlock()
	for _, d := range x.open.all() {
		if err := x.persistDay(ctx, d); err != nil {
			return fmt.Errorf("index: persist day %d: %w", d.day, err)
		}
	}
	return nil
}

func (x *Index) persistDay(ctx context.Context, d *openDay) (err error) {
	// Before any part that may tell of the same hours once more.
	if err := x.writeCleared(ctx, d); err != nil {
		return err
	}
	if !d.dirty.Load() {
		return nil
	}
	if err := x.placeJournal(ctx, d); err != nil {
		return err
	}
	d.dirty.Store(false) // before the words are read: a later touch sets it again
	defer func() {
		if err != nil {
			d.dirty.Store(true)
		}
	}()
	enc := partEncoder{cat: x.cat}
	defer enc.packer.close()
	var due dueSeries
	pages := *d.pages.Load()
	for n := range pages {
		d.takeDirty(&due, n, pages[n])
		if n == len(pages)-1 || due.len() >= x.layout.partRows*persistParts {
			if err := x.persistSeries(ctx, d, &enc, due); err != nil {
				return err
			}
			due.reset()
		}
	}
	return nil
}

// persistParts is the number of parts whose series are listed at a time: a list of all series of a large day would take
// hundreds of megabytes.
const persistParts = 16

// dueSeries are series with hours that the journal lacks: fresh ones are not in it yet, known ones are.
type dueSeries struct{ fresh, known []unwritten }

func (s *dueSeries) len() int { return len(s.fresh) + len(s.known) }
func (s *dueSeries) reset()   { s.fresh, s.known = s.fresh[:0], s.known[:0] }

// persistSeries writes parts with the series. Those not written stay due after an error.
func (x *Index) persistSeries(ctx context.Context, d *openDay, enc *partEncoder, due dueSeries) error {
	byRow := func(a, b unwritten) int { return cmp.Compare(a.row, b.row) }
	if !slices.IsSortedFunc(due.known, byRow) {
		slices.SortFunc(due.known, byRow)
	}
	for due.len() > 0 {
		taken := due.fresh[:min(len(due.fresh), x.layout.partRows)]
		updated := due.known[:min(len(due.known), x.layout.partRuns)]
		if err := x.writePart(ctx, d, enc, taken, updated); err != nil {
			d.settle(due.fresh, wordDirty)
			d.settle(due.known, wordDirty)
			return err
		}
		d.settle(taken, 0)
		d.settle(updated, 0)
		due.fresh, due.known = due.fresh[len(taken):], due.known[len(updated):]
	}
	return nil
}

// takeDirty lists the series of the n-th page with hours that the journal lacks, ascending, and notes that they are being
// written.
func (d *openDay) takeDirty(due *dueSeries, n int, p *dayPage) {
	if p == nil || !p.dirty.Swap(false) { // before its words are read
		return
	}
	for i := range p.words {
		w := &p.words[i]
		for old := w.Load(); old&wordDirty != 0; old = w.Load() {
			if !w.CompareAndSwap(old, old&^(wordDirty|wordUnsure)|wordWriting) {
				continue
			}
			series := unwritten{ref: Ref(n<<refPageBits | i), row: p.rows[i], hours: old & presence.HoursMask}
			switch {
			case series.hours == 0: // they were cleared before they were ever written
				d.settle([]unwritten{series}, 0)
			case series.row == 0:
				due.fresh = append(due.fresh, series)
			default:
				due.known = append(due.known, series)
			}
			break
		}
	}
}

// settle ends the writing of series; mark is wordDirty if it failed, else 0.
func (d *openDay) settle(series []unwritten, mark uint32) {
	for _, u := range series {
		p := d.page(u.ref)
		w := &p.words[u.ref%refPageSize]
		w.Or(mark)
		w.And(^uint32(wordWriting))
		if mark != 0 {
			p.dirty.Store(true)
		}
	}
	if mark != 0 && len(series) > 0 {
		d.dirty.Store(true)
	}
}

// placeJournal continues behind the parts that the day's segment already contains. Parts of several writers need no such
// place.
func (x *Index) placeJournal(ctx context.Context, d *openDay) error {
	if d.journal.known || x.shared() {
		return nil
	}
	seq, err := x.journalEnd(ctx, d.day)
	if err != nil {
		return err
	}
	d.journal = journalState{known: true, first: seq, seq: seq}
	return nil
}

func (x *Index) writePart(ctx context.Context, d *openDay, enc *partEncoder, fresh, known []unwritten) error {
	base, key := d.journal.rows, journalKey(d.day, d.journal.seq)
	if x.shared() {
		base, key = 0, x.nextPartKey(d.day)
	}
	p := enc.encode(base, fresh, known)
	if len(enc.long) > 0 {
		if err := x.meta.Apply(ctx, enc.long); err != nil {
			return fmt.Errorf("label sets too long for a row key: %w", err)
		}
	}
	qualifier := []byte{qualPart}
	enc.payload = appendPart(enc.payload[:0], p)
	blob, err := enc.packer.blob(enc.payload)
	if err != nil {
		return err
	}
	blob = envelope.Seal(blob, key, qualifier)
	if err := x.series.Apply(ctx, []storage.RowMutation{{Key: key, Entries: []storage.Entry{{
		Kind: storage.SetCell, Family: storage.FamilyCatalogue, Qualifier: qualifier, TsMs: presence.DayCellMs(d.day), Value: blob,
	}}}}); err != nil {
		return err // the same sequence number is written again, whether this attempt reached the table or not
	}
	x.metrics.parts.Inc()
	x.metrics.partBytes.Add(float64(len(blob)))
	if x.shared() {
		return nil // each part stands for itself
	}
	for _, r := range enc.order {
		d.page(r.ref).rows[r.ref%refPageSize] = r.row
	}
	d.journal.seq++
	d.journal.rows += p.rows
	return nil
}

// partEncoder turns active series into parts, reusing its tables of ids.
type partEncoder struct {
	cat     *catalogue
	packer  partPacker
	payload []byte

	part  *part
	dicts map[*dictionary]*partDict
	order []unwritten           // the fresh series with their rows, after encode
	long  []storage.RowMutation // label sets to store beside the part
}

// partDict gives the ids of an active dictionary part-local ones.
type partDict struct {
	name  int
	local []uint32 // by active id; 0 = not in the part yet
	used  []uint32
}

func (e *partEncoder) encode(base uint32, fresh, known []unwritten) *part {
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
	runs := make([]unwritten, 0, len(known)+len(fresh))
	runs = append(append(runs, known...), e.order...) // known rows come before fresh ones
	for _, u := range runs {
		e.part.addHours(u.row-1, u.hours)
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
	t      *table
	series []unwritten
	rows   []uint32
}

// byTable groups series by metric, ordered by metric. Series of open days are not retired, and tables are moved under
// the lock that Persist holds, so places hold still.
func (e *partEncoder) byTable(fresh []unwritten) []*tableGroup {
	groups := map[uint32]*tableGroup{}
	var out []*tableGroup
	for _, u := range fresh {
		slot, row, ok := e.cat.refs.place(u.ref)
		if !ok {
			e.part.rows-- // touched after it was retired: nothing is known of it
			continue
		}
		g := groups[slot]
		if g == nil {
			g = &tableGroup{t: e.cat.slot(slot)}
			groups[slot] = g
			out = append(out, g)
		}
		g.series, g.rows = append(g.series, u), append(g.rows, row)
	}
	slices.SortFunc(out, func(a, b *tableGroup) int { return strings.Compare(a.t.metric, b.t.metric) })
	return out
}

func (e *partEncoder) metric(g *tableGroup) {
	var v view
	v.look(g.t)
	m := partMetric{metric: g.t.metric, rows: uint32(len(g.rows))}
	ids := make([]uint32, len(g.rows))
	for pos, col := range v.columns {
		any := uint32(0)
		for i, row := range g.rows {
			ids[i] = v.data[pos].at(row)
			any |= ids[i]
		}
		if any == 0 {
			continue
		}
		pd := e.dict(col.dict)
		for i, id := range ids {
			ids[i] = e.localID(pd, col.dict, id)
		}
		m.columns = append(m.columns, partColumn{name: pd.name, ids: valueid.Pack(ids)})
	}
	slices.SortFunc(m.columns, func(a, b partColumn) int { return a.name - b.name })
	e.part.metrics = append(e.part.metrics, m)
	next := e.part.base + uint32(len(e.order))
	for i, u := range g.series {
		next++
		e.order = append(e.order, unwritten{ref: u.ref, row: next, hours: u.hours})
		e.checkLong(&v, g.rows[i])
	}
}

func (e *partEncoder) dict(d *dictionary) *partDict {
	if e.dicts == nil {
		e.dicts = map[*dictionary]*partDict{}
	}
	pd := e.dicts[d]
	if pd == nil {
		pd = &partDict{name: -1}
		e.dicts[d] = pd
	}
	if pd.name < 0 {
		pd.name = len(e.part.names)
		e.part.names = append(e.part.names, partName{name: d.name})
	}
	return pd
}

func (e *partEncoder) localID(pd *partDict, d *dictionary, id uint32) uint32 {
	if id == 0 {
		return 0
	}
	if int(id) >= len(pd.local) {
		grown := make([]uint32, max(int(id), int(d.count.Load()))+1)
		copy(grown, pd.local)
		pd.local = grown
	}
	if pd.local[id] == 0 {
		n := &e.part.names[pd.name]
		n.values = append(n.values, d.value(id))
		pd.local[id] = uint32(len(n.values))
		pd.used = append(pd.used, id)
	}
	return pd.local[id]
}

// checkLong queues the label set for TableMeta if some rule, that of a later hour of the day included, hashes it instead of
// spelling it in row keys.
func (e *partEncoder) checkLong(v *view, row uint32) {
	if !v.perhapsLong(row) {
		return
	}
	tags := v.tags(nil, row)
	if hash, long := keyschema.MayBeLong(v.t.metric, tags); long {
		e.long = append(e.long, labelSetMutation(hash, tags))
	}
}

// perhapsLong reports whether some rule may hash the row's label set: escaping at most triples a text.
func (v *view) perhapsLong(row uint32) bool {
	size := len(v.t.metric)
	for pos, c := range v.columns {
		if id := v.data[pos].at(row); id != 0 {
			size += len(c.dict.name) + len(c.dict.value(id)) + 2
		}
	}
	return size*3+64 >= keyschema.KeyBytesMax
}

// labelSetMutation stores a label set under its hash, for reading row keys that hold only the hash.
func labelSetMutation(hash string, tags []keyschema.Tag) storage.RowMutation {
	key, qualifier := labelSetKey(hash), []byte{qualTagList}
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
