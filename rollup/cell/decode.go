package cell

import (
	"encoding/binary"

	"halite/keyschema/column"
	"halite/rollup"
)

// Decoder decodes cells and keeps its scratch space between them. It is not for concurrent use; the zero value is
// ready.
type Decoder struct {
	table    table
	integers column.TaggedDecoder
	stored   rollup.Fields
	stale    uint32 // buckets that end with a stale marker
}

// Decode decodes a cell of n buckets that is stored at a row and qualifier. The cell's first bucket begins at fromMs, and
// its buckets are as long as the buckets of c. Decode sets the buckets that c has, and only the columns of c.Fields. It
// returns the fields in the cell. An error wraps [ErrCorrupt] and leaves c unchanged.
func (d *Decoder) Decode(
	c *rollup.Columns, row, qualifier, cell []byte, fromMs int64, n int,
) (stored rollup.Fields, err error) {
	if n < 1 || n > BucketsMax {
		return 0, corrupt("bad number of buckets: %d", n)
	}
	src, err := d.parse(row, qualifier, cell, n)
	if err != nil {
		return 0, err
	}
	fieldOf, wanted := columnFields(), uint16(0)
	for col := range columnCount {
		if fieldOf[col] == 0 || c.Fields&fieldOf[col] != 0 {
			wanted |= 1 << col
		}
	}
	d.table.bucketMs = c.BucketMs
	if d.table.rows > 0 {
		err = d.readColumns(src, wanted)
	} else if wanted = 0; len(src) != 0 {
		err = corrupt("the cell has no samples but %d bytes of columns", len(src))
	}
	if err != nil {
		return 0, err
	}
	d.store(c, fromMs, wanted)
	return d.stored, nil
}

// parse reads the bytes before the columns and returns the columns.
func (d *Decoder) parse(row, qualifier, cell []byte, n int) (src []byte, err error) {
	end := len(cell) - checksumBytes
	if end < 1 {
		return nil, corrupt("the cell has only %d bytes", len(cell))
	}
	if got := binary.LittleEndian.Uint32(cell[end:]); got != checksum(row, qualifier, cell[:end]) {
		return nil, corrupt("checksum mismatch")
	}
	t, head := &d.table, cell[0]
	if head&versionMask != version {
		return nil, corrupt("version %d is unknown", head>>4)
	}
	src = cell[1:end]
	d.stored, d.stale, t.buckets, t.rows, t.exponent = rollup.FieldsAll, 0, n, 0, -1
	if head&flagFields != 0 {
		if len(src) < 2 {
			return nil, corrupt("fields are truncated")
		}
		if d.stored = rollup.Fields(binary.LittleEndian.Uint16(src)); d.stored&^rollup.FieldsAll != 0 {
			return nil, corrupt("fields %#x are unknown", uint16(d.stored))
		}
		src = src[2:]
	}
	present, ok := uint32(1)<<n-1, true
	if head&flagGaps != 0 {
		if present, src, ok = cutBitmap(src, n); !ok {
			return nil, corrupt("bitmap of buckets")
		}
	}
	if head&flagStale != 0 {
		if d.stale, src, ok = cutBitmap(src, n); !ok {
			return nil, corrupt("bitmap of stale markers")
		}
	}
	if head&flagDecimals != 0 {
		if len(src) == 0 || src[0] > exponentMax {
			return nil, corrupt("exponent")
		}
		t.exponent, src = int(src[0]), src[1:]
	}
	for b := range n {
		if present>>b&1 != 0 {
			t.bucketOf[t.rows] = b
			t.rows++
		}
	}
	return src, nil
}

func cutBitmap(src []byte, n int) (bitmap uint32, rest []byte, ok bool) {
	size := (n + 7) / 8
	if len(src) < size {
		return 0, nil, false
	}
	for i, b := range src[:size] {
		bitmap |= uint32(b) << (8 * i)
	}
	return bitmap, src[size:], bitmap>>n == 0
}

// readColumns reads the columns up to the last requested one.
func (d *Decoder) readColumns(src []byte, wanted uint16) error {
	if len(src) < 2 {
		return corrupt("mask of columns is truncated")
	}
	mask, src := binary.LittleEndian.Uint16(src), src[2:]
	fieldOf := columnFields()
	for c := range columnCount {
		if wanted>>c == 0 {
			return nil // the checksum is right, so the rest is not checked
		}
		isStored := mask>>c&1 != 0
		if !d.stored.Has(fieldOf[c]) {
			if isStored {
				return corrupt("column %d is stored, but its field is not", c)
			}
			d.clear(c)
			continue
		}
		var err error
		if src, err = d.readColumn(c, isStored, src); err != nil {
			return err
		}
		if c == colLastMs {
			if err := d.checkTimes(); err != nil {
				return err
			}
		}
	}
	if len(src) != 0 {
		return corrupt("%d trailing bytes after the columns", len(src))
	}
	return nil
}

// clear empties a column whose field the cell lacks.
func (d *Decoder) clear(c columnID) {
	t := &d.table
	t.encodings[c] = t.defaultEncoding(c)
	clear(t.ints[c][:t.rows])
	clear(t.floats[c][:t.rows])
}

// readColumn reads a column, or predicts it if it is not stored. It returns the bytes after the column.
func (d *Decoder) readColumn(c columnID, isStored bool, src []byte) ([]byte, error) {
	t := &d.table
	x := t.ints[c][:t.rows]
	second := false
	if t.encodings[c] = t.defaultEncoding(c); isStored {
		tag, rest, err := d.integers.Decode(x, src)
		if err != nil {
			return nil, corrupt("column %d: %v", c, err)
		}
		src, second = rest, tag&tagSecond != 0
		e := encoding(tag>>tagEncoding) & encodingsMask
		if tag&tagUnused != 0 || second && !c.hasSecondPrediction() || !t.permits(c, e) {
			return nil, corrupt("column %d: bad tag %#x", c, tag)
		}
		t.encodings[c] = e
	} else {
		clear(x)
	}
	if c == colM2 && t.encodings[c] == asInteger {
		t.findDivisor()
	}
	t.predict(c, second)
	for i := range x {
		x[i] += t.predicted[i]
	}
	switch {
	case c == colM2Error:
		for i, err := range x {
			if err != 0 {
				t.floats[colM2][i] = fromOrdered(orderedBits(t.floats[colM2][i]) + err<<droppedBits)
			}
		}
	case c >= colFirst:
		t.restoreFloats(c)
	}
	return src, nil
}

// checkTimes rejects counts and times that no samples can have.
func (d *Decoder) checkTimes() error {
	n := &d.table.ints
	for i := range d.table.rows {
		count, first, last := n[colCount][i], n[colFirstMs][i], n[colLastMs][i]
		if count < 1 || first < 0 || last < first || last >= d.table.bucketMs || count > last-first+1 {
			return corrupt("bucket %d cannot have %d samples from %d to %d ms", d.table.bucketOf[i], count, first, last)
		}
	}
	return nil
}

// store writes the decoded columns to the buckets of c.
func (d *Decoder) store(c *rollup.Columns, fromMs int64, wanted uint16) {
	t := &d.table
	shift := (fromMs - c.FromMs) / c.BucketMs // of the cell's first bucket in c
	size := int64(c.Len())
	for b := range int64(t.buckets) {
		if to := b + shift; to >= 0 && to < size {
			c.Known[to] = true
			c.Stale[to] = c.Fields.Has(rollup.FieldStale) && d.stale>>b&1 != 0
		}
	}
	integers := [...][]int64{c.Count, c.FirstMs, c.LastMs, c.NaNs, c.Resets, c.Changes}
	floats := [columnCount][]float64{
		colFirst: c.First, colLast: c.Last, colMin: c.Min, colMax: c.Max, colSum: c.Sum, colCorrection: c.Correction,
		colSumLow: c.SumLow, colMean: c.Mean, colM2: c.M2,
	}
	inside := t.rows == t.buckets && shift >= 0 && shift+int64(t.buckets) <= size
	for col := range colM2Error {
		if wanted>>col&1 == 0 {
			continue
		}
		isTime := col == colFirstMs || col == colLastMs
		switch {
		case inside && col <= colChanges && !isTime:
			copy(integers[col][shift:], t.ints[col][:t.rows])
			continue
		case inside && !isTime:
			copy(floats[col][shift:], t.floats[col][:t.rows])
			continue
		}
		for i := range t.rows {
			to := int64(t.bucketOf[i]) + shift
			if to < 0 || to >= size {
				continue
			}
			switch {
			case isTime:
				integers[col][to] = t.ints[col][i] + c.FromMs + to*c.BucketMs
			case col <= colChanges:
				integers[col][to] = t.ints[col][i]
			default:
				floats[col][to] = t.floats[col][i]
			}
		}
	}
}
