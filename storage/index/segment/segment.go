package segment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/common/model"

	"halite/storage"
	"halite/storage/index/envelope"
	"halite/storage/index/presence"
	"halite/storage/index/valueid"
)

// Segment reads one generation of a partition. It belongs to one query.
type Segment struct {
	Store    *Store
	Handle   *Handle
	Manifest *Manifest
	dicts    map[string]*Dict
	// Window has the hours of each day that the query needs.
	Window presence.Window
	// Lost has the hours that the next generation of a day omits, by block and row; nil if it omits none.
	Lost map[int]map[uint32]uint32
	// Damaged is set once a part of the segment cannot be read.
	Damaged bool
}

// Dict is a dictionary with the chunks that the query has used, so that most rows need no look-up in the cache.
type Dict struct {
	Segment *Segment
	name    string
	Header  *dictHeader
	chunks  []*ValueChunk
	sets    []*setChunk
}

func (x *Store) Open(ctx context.Context, f *Handle) (*Segment, error) {
	r, err := x.Manifest(ctx, f)
	if err != nil {
		return nil, err
	}
	return &Segment{Store: x, Handle: f, Manifest: r, dicts: map[string]*Dict{}}, nil
}

func (s *Segment) Key(kind byte, name string, n uint32) Key {
	return Key{partition: s.Handle.Partition, gen: s.Manifest.Gen, kind: kind, name: name, n: n}
}

// Fault returns the error of a missing or broken cell: ErrStale if the generation was replaced, otherwise an error that names
// the corrupt cell.
func (s *Segment) Fault(table string, key, qualifier []byte, err error) error {
	now, replaced := s.Handle.Manifest.Load(), s.Store.Replaced
	if now != nil && now.Gen != s.Manifest.Gen || replaced != nil && replaced(s.Handle, s.Manifest.Gen) {
		return ErrStale
	}
	s.Damaged = true
	return envelope.Corrupt(table, key, qualifier, err)
}

// readCells reads cells of the partition.
func (s *Segment) readCells(ctx context.Context, t storage.Table, keys [][]byte, start, end []byte) ([]RawCell, error) {
	out, err := ReadCells(ctx, t, s.Handle.Partition.CellMs(), keys, start, end)
	if errors.Is(err, storage.ErrCorrupt) {
		s.Damaged = true
	}
	return out, err
}

// loadCell reads a cell of the labels table through the cache and parses it.
func loadCell[T interface{ SizeBytes() int64 }](
	ctx context.Context, s *Segment, name string, key Key, qualifier []byte, format byte,
	parse func(payload []byte) (T, error),
) (T, error) {
	if v, ok := Cached[T](s.Store.Cache, key); ok {
		return v, nil
	}
	var none T
	row := dictKey(name, s.Handle.Partition)
	cells, err := s.readCells(ctx, s.Store.LabelsTable, [][]byte{row}, qualifier, append(slices.Clone(qualifier), 0))
	if err != nil {
		return none, err
	}
	if len(cells) == 0 {
		return none, s.Fault(storage.TableLabels, row, qualifier, envelope.ErrMissing)
	}
	payload, err := envelope.OpenFormat(format, cells[0].Value, row, qualifier)
	if err != nil {
		return none, s.Fault(storage.TableLabels, row, qualifier, err)
	}
	v, err := parse(payload)
	if err != nil {
		return none, s.Fault(storage.TableLabels, row, qualifier, err)
	}
	s.Store.Cache.Put(key, v, v.SizeBytes())
	return v, nil
}

// Dict opens the dictionary of a label name, or of __name__. The partition must have the name.
func (s *Segment) Dict(ctx context.Context, name string) (*Dict, error) {
	if d := s.dicts[name]; d != nil {
		return d, nil
	}
	d := &Dict{Segment: s, name: name}
	h, ok := Cached[*dictHeader](s.Store.Cache, s.Key(qualHeader, name, 0))
	if ok {
		d.open(h)
	} else if err := d.read(ctx); err != nil {
		return nil, err
	}
	s.dicts[name] = d
	return d, nil
}

func (d *Dict) open(h *dictHeader) {
	d.Header, d.chunks, d.sets = h, make([]*ValueChunk, len(h.Chunks)), make([]*setChunk, len(h.setChunks))
}

// read reads the header together with the first chunk of values. Most dictionaries have only one.
func (d *Dict) read(ctx context.Context) error {
	s, row := d.Segment, dictKey(d.name, d.Segment.Handle.Partition)
	head, first := GenQualifier(qualHeader, s.Manifest.Gen), chunkQualifier(QualValues, s.Manifest.Gen, 0)
	end := chunkQualifier(QualValues, s.Manifest.Gen, 1)
	cells, err := s.readCells(ctx, s.Store.LabelsTable, [][]byte{row}, head, end)
	if err != nil {
		return err
	}
	if len(cells) == 0 || string(cells[0].Qualifier) != string(head) {
		return s.Fault(storage.TableLabels, row, head, envelope.ErrMissing)
	}
	h, err := d.openHeader(cells[0].Value, row, head)
	if err != nil {
		return s.Fault(storage.TableLabels, row, head, err)
	}
	d.open(h)
	s.Store.Cache.Put(s.Key(qualHeader, d.name, 0), h, h.SizeBytes())
	for _, c := range cells[1:] {
		if string(c.Qualifier) != string(first) || len(h.Chunks) == 0 {
			continue
		}
		payload, err := envelope.OpenFormat(envelope.FormatV2, c.Value, row, first)
		if err == nil {
			d.chunks[0], err = d.parseChunk(payload, 0)
		}
		if err != nil {
			return s.Fault(storage.TableLabels, row, first, err)
		}
		s.Store.Cache.Put(s.Key(QualValues, d.name, 0), d.chunks[0], d.chunks[0].SizeBytes())
	}
	return nil
}

// openHeader reads the stored value of the header, and checks it with the manifest.
func (d *Dict) openHeader(value, row, qualifier []byte) (*dictHeader, error) {
	payload, err := envelope.Open(value, row, qualifier)
	if err != nil {
		return nil, err
	}
	h, err := ParseDictHeader(payload)
	if err != nil {
		return nil, err
	}
	m := d.Segment.Manifest
	want := m.Metrics
	if i, ok := m.Name(d.name); ok && d.name != model.MetricNameLabel {
		want = m.Values[i]
	}
	if h.Values != want {
		return nil, fmt.Errorf("%w: %d values, the manifest says %d", envelope.ErrRange, h.Values, want)
	}
	return h, nil
}

func (d *Dict) parseChunk(payload []byte, i int) (*ValueChunk, error) {
	return ParseValueChunk(payload, d.Header.Chunks[i].first, d.Header.chunkEnd(i), d.Header.sets)
}

func (d *Dict) Chunk(ctx context.Context, i int) (*ValueChunk, error) {
	if d.chunks[i] != nil {
		return d.chunks[i], nil
	}
	q := chunkQualifier(QualValues, d.Segment.Manifest.Gen, uint32(i))
	key := d.Segment.Key(QualValues, d.name, uint32(i))
	c, err := loadCell(ctx, d.Segment, d.name, key, q, envelope.FormatV2, func(p []byte) (*ValueChunk, error) {
		return d.parseChunk(p, i)
	})
	d.chunks[i] = c
	return c, err
}

// Value returns the value of an id from a block. The value keeps a chunk alive, so a caller that keeps the value clones it.
func (d *Dict) Value(ctx context.Context, id uint32) (string, error) {
	if id == 0 || id > d.Header.Values {
		return "", d.Segment.Fault(storage.TableLabels, dictKey(d.name, d.Segment.Handle.Partition),
			GenQualifier(qualHeader, d.Segment.Manifest.Gen), fmt.Errorf("%w: value %d of %d", envelope.ErrRange, id, d.Header.Values))
	}
	c, err := d.Chunk(ctx, d.Header.chunkOfID(id))
	if err != nil {
		return "", err
	}
	return c.Value(id), nil
}

// Lookup returns the id of a value, 0 if the partition lacks it. It reads one chunk.
func (d *Dict) Lookup(ctx context.Context, value string) (uint32, error) {
	i := d.Header.ChunkOfValue(value)
	if i < 0 {
		return 0, nil
	}
	c, err := d.Chunk(ctx, i)
	if err != nil {
		return 0, err
	}
	return c.lookup(value), nil
}

// BlocksOf adds the blocks that contain the value to into.
func (d *Dict) BlocksOf(ctx context.Context, id uint32, into *valueid.Set, seen map[uint32]bool) error {
	c, err := d.Chunk(ctx, d.Header.chunkOfID(id))
	if err != nil {
		return err
	}
	n, ok := c.set(id)
	if !ok || seen[n] {
		return nil
	}
	seen[n] = true
	i := d.Header.chunkOfSet(n)
	if d.sets[i] == nil {
		q := chunkQualifier(qualSets, d.Segment.Manifest.Gen, uint32(i))
		key := d.Segment.Key(qualSets, d.name, uint32(i))
		if d.sets[i], err = loadCell(ctx, d.Segment, d.name, key, q, envelope.FormatV1, func(p []byte) (*setChunk, error) {
			return ParseSetChunk(p, d.Header.setChunks[i], d.Header.setChunkEnd(i), len(d.Segment.Manifest.Blocks))
		}); err != nil {
			return err
		}
	}
	for _, b := range d.sets[i].Sets[n-d.sets[i].first] {
		into.Add(b + 1)
	}
	return nil
}

// Blocks returns blocks without dropped metrics and lost hours.
func (s *Segment) Blocks(ctx context.Context, numbers []int) ([]*Block, error) {
	out, err := s.loadStored(ctx, numbers)
	if err != nil || len(s.Manifest.Dropped) == 0 && len(s.Lost) == 0 {
		return out, err
	}
	for i, n := range numbers {
		if lost := s.Manifest.droppedFrom(n); lost != nil {
			if out[i], err = out[i].without(lost); err != nil {
				return nil, s.CorruptHours(out[i], err)
			}
		}
		if lost := s.Lost[n]; lost != nil {
			if out[i], err = out[i].without(func(_ *Block, row uint32) uint32 { return lost[row] }); err != nil {
				return nil, s.CorruptHours(out[i], err)
			}
		}
	}
	return out, nil
}

// loadStored returns blocks in their stored form. It reads those outside the cache in one request.
func (s *Segment) loadStored(ctx context.Context, numbers []int) ([]*Block, error) {
	out := make([]*Block, len(numbers))
	var keys [][]byte
	missing := map[string]int{} // row key → position in numbers
	for i, n := range numbers {
		if b, ok := Cached[*Block](s.Store.Cache, s.Key(QualBlock, "", uint32(n))); ok {
			out[i] = b
			continue
		}
		names, err := s.Dict(ctx, model.MetricNameLabel)
		if err != nil {
			return nil, err
		}
		metric, err := names.Value(ctx, s.Manifest.Blocks[n].FirstMetric)
		if err != nil {
			return nil, err
		}
		key := blockKey(metric, s.Handle.Partition, s.Manifest.Blocks[n].part)
		missing[string(key)] = i
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return out, nil
	}
	gen := s.Manifest.Gen
	cells, err := s.readCells(ctx, s.Store.SeriesTable, keys, columnQualifier(gen, 0, 0), blockEnd(gen))
	if err != nil {
		return nil, err
	}
	for len(cells) > 0 {
		n := 1
		for n < len(cells) && string(cells[n].Key) == string(cells[0].Key) {
			n++
		}
		at := missing[string(cells[0].Key)]
		b, err := s.parseBlock(cells[:n], numbers[at])
		if err != nil {
			return nil, err
		}
		out[at] = b
		s.Store.Cache.Put(s.Key(QualBlock, "", uint32(numbers[at])), b, b.SizeBytes())
		cells = cells[n:]
	}
	for key, at := range missing {
		if out[at] == nil {
			return nil, s.Fault(storage.TableSeries, []byte(key), columnQualifier(gen, 0, 0), envelope.ErrMissing)
		}
	}
	return out, nil
}

// blockEnd is the end of the qualifiers of a generation's block.
func blockEnd(gen uint32) []byte {
	return append(columnQualifier(gen, 1<<16-1, 1<<16-1), 0)
}

// parseBlock decodes a block from its cells, which are sorted by qualifier.
func (s *Segment) parseBlock(cells []RawCell, number int) (*Block, error) {
	head := cells[0]
	fail := func(c RawCell, err error) (*Block, error) {
		return nil, s.Fault(storage.TableSeries, c.Key, c.Qualifier, err)
	}
	payload, err := envelope.Open(head.Value, head.Key, head.Qualifier)
	if err != nil {
		return fail(head, err)
	}
	from, to := s.Manifest.metricRange(number)
	b, inline, err := ParseBlockHeader(payload, s.Handle.Partition, from, to, len(s.Manifest.Names))
	if err != nil {
		return fail(head, err)
	}
	b.Number = number
	if b.Rows != s.Manifest.Blocks[number].Rows {
		return fail(head, fmt.Errorf("%w: %d rows, the manifest says %d", envelope.ErrRange, b.Rows, s.Manifest.Blocks[number].Rows))
	}
	rest, restBytes := cells[1:], 0
	for _, c := range rest {
		restBytes += len(c.Value)
	}
	for i, p := range b.packedColumns() {
		if inline {
			break
		}
		size := p.RawBytes()
		if len(rest) > 0 && len(rest[0].Value) == size+envelope.OverheadBytes && size > 0 { // all of it in one cell
			q := columnQualifier(s.Manifest.Gen, i+1, 0)
			raw, err := envelope.Open(rest[0].Value, head.Key, q)
			if err != nil {
				return fail(rest[0], err)
			}
			p.RefRaw(raw)
			rest = rest[1:]
			continue
		}
		data := make([]byte, 0, min(size, restBytes)+valueid.PadBytes)
		for chunk := 0; len(data) < size; chunk++ {
			q := columnQualifier(s.Manifest.Gen, i+1, chunk)
			if len(rest) == 0 || string(rest[0].Qualifier) != string(q) {
				return fail(RawCell{Key: head.Key, Qualifier: q}, envelope.ErrMissing)
			}
			raw, err := envelope.Open(rest[0].Value, head.Key, q)
			if err != nil || len(raw) == 0 || len(data)+len(raw) > size {
				return fail(rest[0], errors.Join(err, envelope.ErrRange))
			}
			data = append(data, raw...)
			rest = rest[1:]
		}
		p.RefRaw(data)
	}
	if len(rest) > 0 {
		return fail(rest[0], envelope.ErrTrailing)
	}
	return b, nil
}

// CorruptHours returns the error for hours of a row that are out of range.
func (s *Segment) CorruptHours(b *Block, err error) error {
	return s.Fault(storage.TableSeries, ManifestKey(s.Handle.Partition), columnQualifier(s.Manifest.Gen, 0, 0),
		fmt.Errorf("block of metric %d: %w", b.Metrics[0].Metric, err))
}

// WindowMask returns the window in the form of a dictionary's masks: hours of a day, or days of a month. ok is false if the
// masks still include dropped metrics. The caller must then look at the series.
func (s *Segment) WindowMask() (mask uint32, ok bool) {
	if len(s.Manifest.Dropped) > 0 {
		return 0, false
	}
	if s.Handle.Partition.IsMonth() {
		return s.Window.DaysWithin(), true
	}
	return s.Window[0], true
}
