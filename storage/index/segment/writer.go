package segment

import (
	"context"
	"slices"

	"github.com/prometheus/common/model"

	"halite/storage"
	"halite/storage/index/envelope"
	"halite/storage/index/presence"
	"halite/storage/index/valueid"
)

// writer writes one generation of a partition. Readers see nothing of it until the manifest names the generation.
type writer struct {
	x         *Store
	partition presence.Partition
	gen       uint32
	m         *Content
	manifest  *Manifest

	pending     []pendingMetric
	pendingRows int
	sets        []*valueSets // of each label name
	touched     [][]uint32   // by label name and rank: hours (days in a month) of the series with the value
	touchedOf   []uint32     // by number of the metric: active hours (days in a month)
	muts        []storage.RowMutation
	mutBytes    int
	table       storage.Table // where muts go
}

type pendingMetric struct {
	metric uint32
	series *MetricSeries
}

// valueSets collects, block by block, the set of blocks that contain each value of a label. A set is a node. Its parent is the
// same set without the last block. So values with equal sets share a node.
type valueSets struct {
	ids    []uint32 // node of each rank, 0 = empty
	nodes  []setNode
	next   map[setNode]uint32
	parent setNode // the last transition and its result
	result uint32
}

type setNode struct{ parent, block uint32 }

func newValueSets(values int) *valueSets {
	return &valueSets{ids: make([]uint32, values+1), nodes: make([]setNode, 1), next: map[setNode]uint32{}}
}

// add records that a block contains a value. Blocks come in ascending order.
func (s *valueSets) add(rank, block uint32) {
	at := s.ids[rank]
	if at != 0 && s.nodes[at].block == block {
		return
	}
	step := setNode{at, block}
	if step != s.parent || s.result == 0 {
		n, ok := s.next[step]
		if !ok {
			n = uint32(len(s.nodes))
			s.nodes = append(s.nodes, step)
			s.next[step] = n
		}
		s.parent, s.result = step, n
	}
	s.ids[rank] = s.result
}

// number replaces nodes by numbers of sets, from 1, in the order of first use, and returns the sets.
func (s *valueSets) number() [][]uint32 {
	numbers := make([]uint32, len(s.nodes))
	var sets [][]uint32
	for rank, node := range s.ids {
		if node == 0 {
			continue
		}
		if numbers[node] == 0 {
			var set []uint32
			for n := node; n != 0; n = s.nodes[n].parent {
				set = append(set, s.nodes[n].block)
			}
			slices.Reverse(set)
			sets = append(sets, set)
			numbers[node] = uint32(len(sets))
		}
		s.ids[rank] = numbers[node]
	}
	return sets
}

// write writes all blocks and dictionaries to the tables and returns the new manifest.
func (w *writer) write(ctx context.Context) (*Manifest, error) {
	w.manifest = &Manifest{Gen: w.gen, Metrics: uint32(len(w.m.Metrics)), Names: w.m.Names}
	for _, values := range w.m.Values {
		w.manifest.Values = append(w.manifest.Values, uint32(len(values)))
		w.sets = append(w.sets, newValueSets(len(values)))
		w.touched = append(w.touched, make([]uint32, len(values)+1))
	}
	w.touchedOf = make([]uint32, len(w.m.Metrics)+1)
	w.table = w.x.SeriesTable
	for i, metric := range w.m.Metrics {
		s, err := w.m.Series(ctx, metric)
		if err != nil {
			return nil, err
		}
		if err := w.metric(ctx, uint32(i)+1, s); err != nil {
			return nil, err
		}
	}
	if err := w.closeShared(ctx); err != nil {
		return nil, err
	}
	if err := w.flush(ctx); err != nil {
		return nil, err
	}
	w.table = w.x.LabelsTable
	if err := w.dictionary(ctx, model.MetricNameLabel, w.m.Metrics, nil, w.touchedOf); err != nil {
		return nil, err
	}
	for k, name := range w.m.Names {
		all := uint32(0)
		for _, mask := range w.touched[k][1:] { // 0 means a series without the label
			all |= mask
		}
		w.manifest.TouchedNames = append(w.manifest.TouchedNames, all)
		if err := w.dictionary(ctx, name, w.m.Values[k], w.sets[k], w.touched[k]); err != nil {
			return nil, err
		}
	}
	return w.manifest, w.flush(ctx)
}

func (w *writer) metric(ctx context.Context, metric uint32, s *MetricSeries) error {
	w.manifest.Series += uint64(len(s.Hours))
	for _, n := range s.Hours {
		w.touchedOf[metric] |= w.m.Hours.Touched(n)
	}
	w.manifest.Touched |= w.touchedOf[metric]
	if len(s.Hours) < w.x.Layout.SmallMetricRows {
		w.pending = append(w.pending, pendingMetric{metric, s})
		w.pendingRows += len(s.Hours)
		if w.pendingRows >= w.x.Layout.SharedBlockRows || w.pendingColumns() >= w.x.Layout.SharedBlockColumns {
			return w.closeShared(ctx)
		}
		return nil
	}
	if err := w.closeShared(ctx); err != nil { // blocks are in order of metrics
		return err
	}
	for from, part := 0, uint32(0); from < len(s.Hours); part++ {
		to := min(from+w.x.Layout.BlockRows, len(s.Hours))
		b := &Block{Rows: uint32(to - from), Metrics: []metricRows{{Metric: metric}}}
		touched := w.setHours(b, s.Hours[from:to])
		for c, name := range s.Columns {
			b.Columns = append(b.Columns, blockColumn{Name: name, IDs: w.column(name, s.Ids[c][from:to], touched)})
		}
		if err := w.block(ctx, b, part); err != nil {
			return err
		}
		from = to
	}
	w.m.Hours.Reset()
	return nil
}

func (w *writer) pendingColumns() int {
	n := 0
	for _, p := range w.pending {
		n += len(p.series.Columns)
	}
	return n / max(1, len(w.pending)/8) // small metrics share most of their names
}

// closeShared writes the pending small metrics as one block.
func (w *writer) closeShared(ctx context.Context) error {
	if len(w.pending) == 0 {
		return nil
	}
	b := &Block{Rows: uint32(w.pendingRows)}
	var names []int
	var hours []uint32
	for _, p := range w.pending {
		b.Metrics = append(b.Metrics, metricRows{Metric: p.metric, From: uint32(len(hours))})
		hours = append(hours, p.series.Hours...)
		names = append(names, p.series.Columns...)
	}
	touched := w.setHours(b, hours)
	slices.Sort(names)
	ids := make([]uint32, len(hours))
	for _, name := range slices.Compact(names) {
		clear(ids)
		for i, p := range w.pending {
			if c, ok := slices.BinarySearch(p.series.Columns, name); ok {
				copy(ids[b.Metrics[i].From:], p.series.Ids[c])
			}
		}
		b.Columns = append(b.Columns, blockColumn{Name: name, IDs: w.column(name, ids, touched)})
	}
	w.pending, w.pendingRows = nil, 0
	w.m.Hours.Reset()
	return w.block(ctx, b, 0)
}

// column packs a column. It records the block and the active hours of each value.
func (w *writer) column(name int, ids, touched []uint32) valueid.Column {
	sets, last, masks := w.sets[name], uint32(0), w.touched[name]
	for i, id := range ids {
		masks[id] |= touched[i]
		if id != 0 && id != last {
			sets.add(id, uint32(len(w.manifest.Blocks)))
			last = id
		}
	}
	return valueid.Pack(ids)
}

// setHours sets the patterns of hours of a block's rows. It returns the active hours, or days, of each row.
func (w *writer) setHours(b *Block, numbers []uint32) (touched []uint32) {
	index := map[uint32]uint32{}
	ids := make([]uint32, len(numbers))
	touched = make([]uint32, len(numbers))
	for i, number := range numbers {
		n, ok := index[number]
		if !ok {
			n = uint32(len(b.Ends))
			index[number] = n
			b.addPattern(w.m.Hours.Pattern(number))
		}
		ids[i], touched[i] = n, w.m.Hours.Touched(number)
	}
	b.presence = valueid.Pack(ids)
	return touched
}

func (w *writer) block(ctx context.Context, b *Block, part uint32) error {
	first := b.Metrics[0].Metric
	w.manifest.Blocks = append(w.manifest.Blocks, BlockRef{FirstMetric: first, part: part, Rows: b.Rows})
	key := blockKey(w.m.Metrics[first-1], w.partition, part)
	columns, size := b.packedColumns(), 0
	for _, p := range columns {
		size += p.RawBytes()
	}
	inline := size <= w.x.Layout.InlineBytes
	mut := storage.RowMutation{Key: key}
	w.cell(&mut, columnQualifier(w.gen, 0, 0),
		AppendBlockHeader(envelope.New(envelope.FormatV1, 1024+size), b, w.partition, inline))
	for i, p := range columns {
		if inline {
			break
		}
		raw := p.Raw()
		for chunk := 0; len(raw) > 0; chunk++ {
			n := min(len(raw), w.x.Layout.CellBytes)
			w.cell(&mut, columnQualifier(w.gen, i+1, chunk), append(envelope.New(envelope.FormatV1, n), raw[:n]...))
			raw = raw[n:]
		}
	}
	return w.add(ctx, mut)
}

// dictionary writes the sorted values of a label name with their sets of blocks and their active hours.
func (w *writer) dictionary(
	ctx context.Context, name string, values []string, sets *valueSets, touched []uint32,
) error {
	h := &dictHeader{Values: uint32(len(values))}
	mut := storage.RowMutation{Key: dictKey(name, w.partition)}
	ids := make([]uint32, len(values)+1)
	var list [][]uint32
	if sets != nil {
		list = sets.number()
		ids = sets.ids
	}
	for from := 0; from < len(values); {
		to, size := from, 0
		for to < len(values) && (to == from || size+len(values[to])+8 <= w.x.Layout.CellBytes) {
			size += len(values[to]) + 8
			to++
		}
		q := chunkQualifier(QualValues, w.gen, uint32(len(h.Chunks)))
		h.Chunks = append(h.Chunks, chunkRef{first: uint32(from) + 1, Value: values[from]})
		w.cell(&mut, q, AppendValueChunk(envelope.New(envelope.FormatV2, size), values[from:to], ids[from+1:to+1],
			touched[from+1:to+1]))
		from = to
		if err := w.addFull(ctx, &mut); err != nil {
			return err
		}
	}
	h.sets = uint32(len(list))
	for from := 0; from < len(list); {
		to, size := from, 0
		for to < len(list) && (to == from || size+5*len(list[to])+5 <= w.x.Layout.CellBytes) {
			size += 5*len(list[to]) + 5
			to++
		}
		q := chunkQualifier(qualSets, w.gen, uint32(len(h.setChunks)))
		h.setChunks = append(h.setChunks, uint32(from))
		w.cell(&mut, q, AppendSetChunk(envelope.New(envelope.FormatV1, size/2), list[from:to]))
		from = to
	}
	q := GenQualifier(qualHeader, w.gen)
	w.cell(&mut, q, AppendDictHeader(envelope.New(envelope.FormatV1, 256), h))
	return w.add(ctx, mut)
}

// cell adds a sealed value to a row.
func (w *writer) cell(mut *storage.RowMutation, qualifier, blob []byte) {
	blob = envelope.Seal(blob, mut.Key, qualifier)
	mut.Entries = append(mut.Entries, storage.Entry{
		Kind: storage.SetCell, Family: storage.FamilyIndex, Qualifier: qualifier, TsMs: w.partition.CellMs(), Value: blob,
	})
	w.mutBytes += len(blob) + len(qualifier)
}

func (w *writer) add(ctx context.Context, mut storage.RowMutation) error {
	w.muts = append(w.muts, mut)
	w.mutBytes += len(mut.Key)
	if w.mutBytes < w.x.Layout.ApplyBytes {
		return nil
	}
	return w.flush(ctx)
}

// addFull sends the current entries of a row if they are large. Readers see nothing before the manifest names the generation,
// so a row may take several mutations.
func (w *writer) addFull(ctx context.Context, mut *storage.RowMutation) error {
	if w.mutBytes < w.x.Layout.ApplyBytes {
		return nil
	}
	err := w.add(ctx, *mut)
	mut.Entries = nil
	return err
}

func (w *writer) flush(ctx context.Context) error {
	if len(w.muts) == 0 {
		return nil
	}
	err := w.table.Apply(ctx, w.muts)
	w.muts, w.mutBytes = w.muts[:0], 0
	return err
}
