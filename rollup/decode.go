package rollup

import (
	"encoding/binary"
	"math/bits"

	"halite/keyschema/run"
)

// Decoder unpacks cells and keeps its scratch space between them. It is not for concurrent use; the zero value is ready.
type Decoder struct {
	s      scratch
	run    run.Decoder
	stored Fields
	stale  uint32
	mask   uint16
	done   uint16 // columns that are in s
	needs  [columnsAll]uint16
	of     [columnsAll]Fields
	bodies [columnsAll][]byte
	forms  [columnsAll]form
	joined []byte
	tsMs   []int64
	values []float64
}

// Decode reads a cell of n buckets that was stored at row and qualifier and sets those of its buckets that c has; the
// cell's first bucket begins at fromMs, and its buckets are as long as those of c. Only the columns of c.Fields are
// unpacked. stored are the fields that the cell has. An error wraps [ErrCorrupt], and c is then unchanged.
func (d *Decoder) Decode(c *Columns, row, qualifier, cell []byte, fromMs int64, n int) (stored Fields, err error) {
	if n < 1 || n > BucketsMax {
		return 0, corrupt("%d buckets", n)
	}
	if err := d.parse(row, qualifier, cell, n); err != nil {
		return 0, err
	}
	if d.needs == [columnsAll]uint16{} {
		d.needs, d.of = needs(), columnFields()
	}
	wanted := uint16(0)
	for col := range columnsAll {
		if d.of[col] == 0 || c.Fields&d.of[col] != 0 {
			wanted |= 1 << col
		}
	}
	if d.s.k == 0 {
		wanted = 0
	}
	if err := d.readAll(wanted); err != nil {
		return 0, err
	}
	if err := d.checkTimes(c.BucketMs); err != nil {
		return 0, err
	}
	d.store(c, fromMs, wanted)
	return d.stored, nil
}

// parse finds the parts of a cell.
func (d *Decoder) parse(row, qualifier, cell []byte, n int) error {
	end := len(cell) - checksumBytes
	if end < 1 {
		return corrupt("%d bytes", len(cell))
	}
	if got := binary.LittleEndian.Uint32(cell[end:]); got != checksum(row, qualifier, cell[:end]) {
		return corrupt("checksum")
	}
	head, src := cell[0], cell[1:end]
	if head&versionMask != cellVersion {
		return corrupt("version %d is unknown", head>>4)
	}
	d.stored, d.stale, d.s.n, d.s.exponent, d.mask, d.done = FieldsAll, 0, n, -1, 0, 0
	if head&flagFields != 0 {
		if len(src) < 2 {
			return corrupt("fields are cut off")
		}
		d.stored = Fields(binary.LittleEndian.Uint16(src))
		src = src[2:]
	}
	present, ok := uint32(1)<<n-1, true
	if head&flagGaps != 0 {
		if present, src, ok = cutBitmap(src, n); !ok {
			return corrupt("bitmap of buckets")
		}
	}
	if head&flagStale != 0 {
		if d.stale, src, ok = cutBitmap(src, n); !ok {
			return corrupt("bitmap of stale ends")
		}
	}
	if head&flagDecimals != 0 {
		if len(src) == 0 || src[0] > exponentMax {
			return corrupt("exponent")
		}
		d.s.exponent, src = int(src[0]), src[1:]
	}
	d.s.k = 0
	for b := range n {
		if present>>b&1 != 0 {
			d.s.at[d.s.k] = b
			d.s.k++
		}
	}
	return d.parseColumns(src)
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

// parseColumns finds the columns that are stored.
func (d *Decoder) parseColumns(src []byte) error {
	if d.s.k == 0 {
		if len(src) != 0 {
			return corrupt("%d bytes about no samples", len(src))
		}
		return nil
	}
	if len(src) < 2 {
		return corrupt("columns are cut off")
	}
	d.mask, src = binary.LittleEndian.Uint16(src), src[2:]
	for rest := d.mask; rest != 0; rest &= rest - 1 {
		c := bits.TrailingZeros16(rest)
		x, used := binary.Uvarint(src)
		if used <= 0 || x>>2 > uint64(len(src)-used) {
			return corrupt("column %d is cut off", c)
		}
		size := int(x >> 2)
		d.forms[c], d.bodies[c] = form(x&3), src[used:used+size]
		src = src[used+size:]
	}
	if len(src) != 0 {
		return corrupt("%d bytes too many", len(src))
	}
	return nil
}

// readAll reads the wanted columns and those that they are predicted from.
func (d *Decoder) readAll(wanted uint16) error {
	for before := uint16(0); wanted != before; {
		before = wanted
		for rest := wanted; rest != 0; rest &= rest - 1 {
			wanted |= d.needs[bits.TrailingZeros16(rest)]
		}
	}
	d.done = wanted
	for c := range columnsAll {
		if wanted>>c&1 == 0 {
			continue
		}
		if err := d.read(c); err != nil {
			return err
		}
	}
	return nil
}

// read reads a column whose needs are there, except that First and Last, which lean on each other, are read together.
func (d *Decoder) read(c columnID) error {
	if !d.stored.Has(d.of[c]) {
		clear(d.s.numbers[c][:d.s.k])
		clear(d.s.floats[c][:d.s.k])
		return nil
	}
	decimals := d.s.exponent >= 0
	switch {
	case c.isInteger() || decimals && c.isMantissa():
		if d.mask>>c&1 != 0 && d.forms[c] == formFloats {
			if c.isInteger() && c != colSumLow || c <= colMax {
				return corrupt("column %d is not whole", c)
			}
			return d.readWholeFloats(c)
		}
		if err := d.readNumbers(c); err != nil {
			return err
		}
		if c == colFirst {
			return nil // waits for Last
		}
		d.predictNumbers(c)
		switch {
		case c == colSumLow:
			for i, x := range d.s.numbers[c][:d.s.k] {
				d.s.floats[c][i] = 0
				if x != 0 {
					d.s.floats[c][i] = float64(x) * lowUnit(d.s.floats[colSum][i])
				}
			}
		case decimals && c.isMantissa():
			d.toFloats(c)
		}
		return nil
	default:
		return d.readFloats(c, d.forms[c])
	}
}

// readWholeFloats unpacks a column of a cell of decimals that is floats all the same.
func (d *Decoder) readWholeFloats(c columnID) error {
	clear(d.s.numbers[c][:d.s.k])
	body := d.bodies[c]
	if len(body) == 0 || body[0] > 1 {
		return corrupt("column %d is cut off", c)
	}
	values, err := d.unpack(body[1:], d.s.k, body[0] == 1)
	copy(d.s.floats[c][:], values)
	return err
}

// formOf is the form of a column of whole numbers; one that is not stored is as predicted.
func (d *Decoder) formOf(c columnID) form {
	if d.mask>>c&1 == 0 {
		return formResidual
	}
	return d.forms[c]
}

// readNumbers unpacks a column of whole numbers as it is written.
func (d *Decoder) readNumbers(c columnID) error {
	out := d.s.numbers[c][:d.s.k]
	if d.mask>>c&1 == 0 {
		clear(out)
		return nil
	}
	body := d.bodies[c]
	if len(body) > 1 && body[0] == 0 { // a run of one whole number, as most of these columns are
		if x, used := binary.Varint(body[1:]); used == len(body)-1 && x > -1<<53 && x < 1<<53 {
			for i := range out {
				out[i] = x
			}
			return nil
		}
	}
	values, err := d.unpack(body, d.s.k, false)
	if err != nil {
		return err
	}
	for i, v := range values {
		if !(v > -1<<53 && v < 1<<53) || v != float64(int64(v)) {
			return corrupt("column %d has %v", c, v)
		}
		out[i] = int64(v)
	}
	return nil
}

// predictNumbers adds the predictions.
func (d *Decoder) predictNumbers(c columnID) {
	n := &d.s.numbers
	if c == colLast {
		first, last := d.formOf(colFirst), d.formOf(colLast)
		if first == formResidual && last == formResidual { // usually
			at, lasts := int64(0), n[colLast][:d.s.k]
			for i, x := range n[colFirst][:len(lasts)] {
				n[colFirst][i] = at + x
				at += x + lasts[i]
				lasts[i] = at
			}
			d.toFloats(colFirst)
			return
		}
		for i := range d.s.k {
			if first != formPlain {
				n[colFirst][i] += d.s.predict(colFirst, first, i)
			}
			if last != formPlain {
				n[colLast][i] += d.s.predict(colLast, last, i)
			}
		}
		d.toFloats(colFirst)
		return
	}
	f := d.formOf(c)
	if f == formPlain {
		return
	}
	for i := range d.s.k {
		n[c][i] += d.s.predict(c, f, i)
	}
}

func (d *Decoder) toFloats(c columnID) {
	if d.s.exponent == 0 {
		for i, m := range d.s.numbers[c][:d.s.k] {
			d.s.floats[c][i] = float64(m)
		}
		return
	}
	p := power(d.s.exponent)
	for i, m := range d.s.numbers[c][:d.s.k] {
		d.s.floats[c][i] = float64(m) / p
	}
}

// readFloats unpacks a column of floats.
func (d *Decoder) readFloats(c columnID, f form) error {
	k, out := d.s.k, &d.s.floats[c]
	if d.mask>>c&1 == 0 {
		for i := range k {
			out[i] = d.s.predictFloat(c, i)
		}
		return nil
	}
	body, specials := d.bodies[c], f >= formAllSpecials
	if f == formAll || f == formAllSpecials {
		values, err := d.unpack(body, k, specials)
		copy(out[:], values)
		return err
	}
	differ, body, ok := cutBitmap(body, k)
	if !ok || differ == 0 {
		return corrupt("exceptions of column %d", c)
	}
	values, err := d.unpack(body, bits.OnesCount32(differ), specials)
	if err != nil {
		return err
	}
	for i := range k {
		if differ>>i&1 == 0 {
			out[i] = d.s.predictFloat(c, i)
			continue
		}
		out[i], values = values[0], values[1:]
	}
	return nil
}

// unpack unpacks k values, which are valid until the next call.
func (d *Decoder) unpack(body []byte, k int, specials bool) (values []float64, err error) {
	d.joined = append(appendRunHead(d.joined[:0], k, specials), body...)
	d.tsMs, d.values, err = d.run.Decode(d.joined, 0, d.tsMs[:0], d.values[:0])
	if err != nil {
		return nil, corrupt("%v", err)
	}
	if len(d.values) != k {
		return nil, corrupt("%d values, want %d", len(d.values), k)
	}
	return d.values, nil
}

// checkTimes refuses counts and times that no samples can have.
func (d *Decoder) checkTimes(bucketMs int64) error {
	n := &d.s.numbers
	for i := range d.s.k {
		count, first, last := n[colCount][i], n[colFirstMs][i], n[colLastMs][i]
		if count < 1 || first < 0 || last < first || last >= bucketMs || count > last-first+1 {
			return corrupt("bucket %d: %d samples from %d to %d", d.s.at[i], count, first, last)
		}
	}
	return nil
}

// store writes what was read to the buckets of c.
func (d *Decoder) store(c *Columns, fromMs int64, wanted uint16) {
	shift := (fromMs - c.FromMs) / c.BucketMs // of the cell's first bucket in c
	size := int64(c.Len())
	for b := range int64(d.s.n) {
		if to := b + shift; to >= 0 && to < size {
			c.Known[to] = true
			c.Stale[to] = c.Fields.Has(FieldStale) && d.stale>>b&1 != 0
		}
	}
	integers := [...][]int64{c.Count, c.FirstMs, c.LastMs, c.NaNs, c.Resets, c.Changes}
	floats := [columnsAll][]float64{
		colFirst: c.First, colLast: c.Last, colMin: c.Min, colMax: c.Max, colSum: c.Sum, colCorrection: c.Correction,
		colSumLow: c.SumLow, colMean: c.Mean, colM2: c.M2,
	}
	for col := range columnsAll {
		if wanted>>col&1 == 0 || col == colSquares {
			continue
		}
		if d.s.k == d.s.n && shift >= 0 && shift+int64(d.s.n) <= size && col != colFirstMs && col != colLastMs {
			if col <= colChanges {
				copy(integers[col][shift:], d.s.numbers[col][:d.s.k])
			} else {
				copy(floats[col][shift:], d.s.floats[col][:d.s.k])
			}
			continue
		}
		for i := range d.s.k {
			to := int64(d.s.at[i]) + shift
			if to < 0 || to >= size {
				continue
			}
			switch {
			case col == colFirstMs || col == colLastMs:
				integers[col][to] = d.s.numbers[col][i] + c.FromMs + to*c.BucketMs
			case col <= colChanges:
				integers[col][to] = d.s.numbers[col][i]
			default:
				floats[col][to] = d.s.floats[col][i]
			}
		}
	}
}
