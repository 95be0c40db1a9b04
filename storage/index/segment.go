package index

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/prometheus/common/model"

	"halite/storage"
	"halite/storage/index/envelope"
	"halite/storage/index/presence"
	"halite/storage/index/valueid"
)

// segment reads one generation of a period. It belongs to one query.
type segment struct {
	x     *Index
	of    *folded
	root  *root
	dicts map[string]*segmentDict
	// window is what the query asks of each day of the period.
	window presence.Window
	// damaged is set once something of the segment could not be read as it was written.
	damaged bool
}

// segmentDict is a dictionary with the chunks that the query has used, so that the cache is not asked for every row.
type segmentDict struct {
	s      *segment
	name   string
	header *dictHeader
	chunks []*valueChunk
	sets   []*setChunk
}

func (x *Index) segment(ctx context.Context, f *folded) (*segment, error) {
	r, err := x.root(ctx, f)
	if err != nil {
		return nil, err
	}
	return &segment{x: x, of: f, root: r, dicts: map[string]*segmentDict{}}, nil
}

func (s *segment) key(kind byte, name string, n uint32) cacheKey {
	return cacheKey{of: s.of.of, gen: s.root.gen, kind: kind, name: name, n: n}
}

// fault says what a missing or broken cell means: the generation may have been replaced, else it is corrupt.
func (s *segment) fault(table string, key, qualifier []byte, err error) error {
	if now := s.of.root.Load(); now != nil && now.gen != s.root.gen || s.x.replaced(s.of, s.root.gen) {
		return errStale
	}
	s.damaged = true
	return envelope.Corrupt(table, key, qualifier, err)
}

// cells is readCells of the period.
func (s *segment) cells(ctx context.Context, t storage.Table, keys [][]byte, start, end []byte) ([]rawCell, error) {
	out, err := readCells(ctx, t, s.of.of.CellMs(), keys, start, end)
	if errors.Is(err, storage.ErrCorrupt) {
		s.damaged = true
	}
	return out, err
}

// loadCell reads and parses one cell of the labels table through the cache.
func loadCell[T interface{ SizeBytes() int64 }](
	ctx context.Context, s *segment, name string, key cacheKey, qualifier []byte, parse func(payload []byte, format byte) (T, error),
) (T, error) {
	if v, ok := cached[T](s.x.cache, key); ok {
		return v, nil
	}
	var none T
	row := dictKey(name, s.of.of)
	cells, err := s.cells(ctx, s.x.labels, [][]byte{row}, qualifier, append(slices.Clone(qualifier), 0))
	if err != nil {
		return none, err
	}
	if len(cells) == 0 {
		return none, s.fault(storage.TableLabels, row, qualifier, envelope.ErrMissing)
	}
	payload, format, err := envelope.OpenUpTo(envelope.FormatV2, cells[0].value, row, qualifier)
	if err != nil {
		return none, s.fault(storage.TableLabels, row, qualifier, err)
	}
	v, err := parse(payload, format)
	if err != nil {
		return none, s.fault(storage.TableLabels, row, qualifier, err)
	}
	s.x.cache.put(key, v, v.SizeBytes())
	return v, nil
}

// dict opens the dictionary of a label name, __name__ included; the period must have the name.
func (s *segment) dict(ctx context.Context, name string) (*segmentDict, error) {
	if d := s.dicts[name]; d != nil {
		return d, nil
	}
	d := &segmentDict{s: s, name: name}
	h, ok := cached[*dictHeader](s.x.cache, s.key(qualHeader, name, 0))
	if ok {
		d.open(h)
	} else if err := d.read(ctx); err != nil {
		return nil, err
	}
	s.dicts[name] = d
	return d, nil
}

func (d *segmentDict) open(h *dictHeader) {
	d.header, d.chunks, d.sets = h, make([]*valueChunk, len(h.chunks)), make([]*setChunk, len(h.setChunks))
}

// read reads the header and, with it, the first chunk of values: most dictionaries have no other.
func (d *segmentDict) read(ctx context.Context) error {
	s, row := d.s, dictKey(d.name, d.s.of.of)
	head, first := genQualifier(qualHeader, s.root.gen), chunkQualifier(qualValues, s.root.gen, 0)
	end := chunkQualifier(qualValues, s.root.gen, 1)
	cells, err := s.cells(ctx, s.x.labels, [][]byte{row}, head, end)
	if err != nil {
		return err
	}
	if len(cells) == 0 || string(cells[0].qualifier) != string(head) {
		return s.fault(storage.TableLabels, row, head, envelope.ErrMissing)
	}
	payload, err := envelope.Open(cells[0].value, row, head)
	if err != nil {
		return s.fault(storage.TableLabels, row, head, err)
	}
	h, err := parseDictHeader(payload)
	if err == nil {
		want := s.root.metrics
		if i, ok := s.root.name(d.name); ok && d.name != model.MetricNameLabel {
			want = s.root.values[i]
		}
		if h.values != want {
			err = fmt.Errorf("%w: %d values, the root says %d", envelope.ErrRange, h.values, want)
		}
	}
	if err != nil {
		return s.fault(storage.TableLabels, row, head, err)
	}
	d.open(h)
	s.x.cache.put(s.key(qualHeader, d.name, 0), h, h.SizeBytes())
	for _, c := range cells[1:] {
		if string(c.qualifier) != string(first) || len(h.chunks) == 0 {
			continue
		}
		payload, format, err := envelope.OpenUpTo(envelope.FormatV2, c.value, row, first)
		if err == nil {
			d.chunks[0], err = d.parseChunk(payload, format, 0)
		}
		if err != nil {
			return s.fault(storage.TableLabels, row, first, err)
		}
		s.x.cache.put(s.key(qualValues, d.name, 0), d.chunks[0], d.chunks[0].SizeBytes())
	}
	return nil
}

func (d *segmentDict) parseChunk(payload []byte, format byte, i int) (*valueChunk, error) {
	return parseValueChunk(payload, format, d.header.chunks[i].first, d.header.chunkEnd(i), d.header.sets)
}

func (d *segmentDict) chunk(ctx context.Context, i int) (*valueChunk, error) {
	if d.chunks[i] != nil {
		return d.chunks[i], nil
	}
	q := chunkQualifier(qualValues, d.s.root.gen, uint32(i))
	key := d.s.key(qualValues, d.name, uint32(i))
	c, err := loadCell(ctx, d.s, d.name, key, q, func(p []byte, format byte) (*valueChunk, error) {
		return d.parseChunk(p, format, i)
	})
	d.chunks[i] = c
	return c, err
}

// value returns the value of an id found in a block; it keeps a chunk alive, so clone what is kept.
func (d *segmentDict) value(ctx context.Context, id uint32) (string, error) {
	if id == 0 || id > d.header.values {
		return "", d.s.fault(storage.TableLabels, dictKey(d.name, d.s.of.of),
			genQualifier(qualHeader, d.s.root.gen), fmt.Errorf("%w: value %d of %d", envelope.ErrRange, id, d.header.values))
	}
	c, err := d.chunk(ctx, d.header.chunkOfID(id))
	if err != nil {
		return "", err
	}
	return c.value(id), nil
}

// lookup returns the id of a value, 0 if the period lacks it; it reads one chunk.
func (d *segmentDict) lookup(ctx context.Context, value string) (uint32, error) {
	i := d.header.chunkOfValue(value)
	if i < 0 {
		return 0, nil
	}
	c, err := d.chunk(ctx, i)
	if err != nil {
		return 0, err
	}
	return c.lookup(value), nil
}

// blocksOf appends the blocks in which the value occurs to set.
func (d *segmentDict) blocksOf(ctx context.Context, id uint32, into *valueid.Set, seen map[uint32]bool) error {
	c, err := d.chunk(ctx, d.header.chunkOfID(id))
	if err != nil {
		return err
	}
	n, ok := c.set(id)
	if !ok || seen[n] {
		return nil
	}
	seen[n] = true
	i := d.header.chunkOfSet(n)
	if d.sets[i] == nil {
		q := chunkQualifier(qualSets, d.s.root.gen, uint32(i))
		key := d.s.key(qualSets, d.name, uint32(i))
		if d.sets[i], err = loadCell(ctx, d.s, d.name, key, q, func(p []byte, _ byte) (*setChunk, error) {
			return parseSetChunk(p, d.header.setChunks[i], d.header.setChunkEnd(i), len(d.s.root.blocks))
		}); err != nil {
			return err
		}
	}
	for _, b := range d.sets[i].sets[n-d.sets[i].first] {
		into.Add(b + 1)
	}
	return nil
}

// load returns blocks as they are since hours were last removed.
func (s *segment) load(ctx context.Context, numbers []int) ([]*block, error) {
	if s.root.removed == nil {
		return s.loadStored(ctx, numbers)
	}
	out := make([]*block, len(numbers))
	version := strconv.FormatUint(uint64(s.root.removed.version), 10)
	var missing []int
	for i, n := range numbers {
		if len(s.root.removed.of(n)) > 0 {
			out[i], _ = cached[*block](s.x.cache, s.key(qualBlock, version, uint32(n)))
		}
		if out[i] == nil {
			missing = append(missing, n)
		}
	}
	stored, err := s.loadStored(ctx, missing)
	if err != nil {
		return nil, err
	}
	for i, n := range numbers {
		if out[i] != nil {
			continue
		}
		out[i], stored = stored[0], stored[1:]
		if runs := s.root.removed.of(n); len(runs) > 0 {
			b, err := out[i].without(runs)
			if err != nil {
				return nil, s.badHours(out[i], err)
			}
			out[i] = b
			s.x.cache.put(s.key(qualBlock, version, uint32(n)), b, b.SizeBytes())
		}
	}
	return out, nil
}

// loadStored returns blocks as they were written, reading those that are not cached in one request.
func (s *segment) loadStored(ctx context.Context, numbers []int) ([]*block, error) {
	out := make([]*block, len(numbers))
	var keys [][]byte
	missing := map[string]int{} // row key → position in numbers
	for i, n := range numbers {
		if b, ok := cached[*block](s.x.cache, s.key(qualBlock, "", uint32(n))); ok {
			out[i] = b
			continue
		}
		names, err := s.dict(ctx, model.MetricNameLabel)
		if err != nil {
			return nil, err
		}
		metric, err := names.value(ctx, s.root.blocks[n].firstMetric)
		if err != nil {
			return nil, err
		}
		key := blockKey(metric, s.of.of, s.root.blocks[n].part)
		missing[string(key)] = i
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return out, nil
	}
	gen := s.root.gen
	cells, err := s.cells(ctx, s.x.series, keys, columnQualifier(gen, 0, 0), blockEnd(gen))
	if err != nil {
		return nil, err
	}
	for len(cells) > 0 {
		n := 1
		for n < len(cells) && string(cells[n].key) == string(cells[0].key) {
			n++
		}
		at := missing[string(cells[0].key)]
		b, err := s.parseBlock(cells[:n], numbers[at])
		if err != nil {
			return nil, err
		}
		out[at] = b
		s.x.cache.put(s.key(qualBlock, "", uint32(numbers[at])), b, b.SizeBytes())
		cells = cells[n:]
	}
	for key, at := range missing {
		if out[at] == nil {
			return nil, s.fault(storage.TableSeries, []byte(key), columnQualifier(gen, 0, 0), envelope.ErrMissing)
		}
	}
	return out, nil
}

// blockEnd is the qualifier behind all cells of a generation's block.
func blockEnd(gen uint32) []byte {
	return append(columnQualifier(gen, 1<<16-1, 1<<16-1), 0)
}

// parseBlock puts a block together from its cells, which are in order.
func (s *segment) parseBlock(cells []rawCell, number int) (*block, error) {
	head := cells[0]
	fail := func(c rawCell, err error) (*block, error) {
		return nil, s.fault(storage.TableSeries, c.key, c.qualifier, err)
	}
	payload, err := envelope.Open(head.value, head.key, head.qualifier)
	if err != nil {
		return fail(head, err)
	}
	from, to := s.root.metricRange(number)
	b, inline, err := parseBlockHeader(payload, from, to, len(s.root.names), s.of.of.IsMonth())
	if err != nil {
		return fail(head, err)
	}
	b.number = number
	if b.rows != s.root.blocks[number].rows {
		return fail(head, fmt.Errorf("%w: %d rows, the root says %d", envelope.ErrRange, b.rows, s.root.blocks[number].rows))
	}
	rest, restBytes := cells[1:], 0
	for _, c := range rest {
		restBytes += len(c.value)
	}
	for i, p := range b.packedColumns() {
		if inline {
			break
		}
		size := p.RawBytes()
		if len(rest) > 0 && len(rest[0].value) == size+envelope.OverheadBytes && size > 0 { // all of it in one cell
			q := columnQualifier(s.root.gen, i+1, 0)
			raw, err := envelope.Open(rest[0].value, head.key, q)
			if err != nil {
				return fail(rest[0], err)
			}
			p.RefRaw(raw)
			rest = rest[1:]
			continue
		}
		data := make([]byte, 0, min(size, restBytes)+valueid.PadBytes)
		for chunk := 0; len(data) < size; chunk++ {
			q := columnQualifier(s.root.gen, i+1, chunk)
			if len(rest) == 0 || string(rest[0].qualifier) != string(q) {
				return fail(rawCell{key: head.key, qualifier: q}, envelope.ErrMissing)
			}
			raw, err := envelope.Open(rest[0].value, head.key, q)
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
