package rollup

import (
	"encoding/binary"
	"math/bits"

	"halite/keyschema"
	"halite/keyschema/run"
)

// former reads cells of version 1, whose columns are packed runs. They differ from those of this version in their states,
// too: SumLow has some bits more.
type former struct {
	run    run.Decoder
	mask   uint16 // of the columns that are there
	needs  [columnsAll]uint16
	bodies [columnsAll][]byte
	forms  [columnsAll]form
	joined []byte
	tsMs   []int64
	values []float64
}

// formerLowBits is lowBits of the former version.
const formerLowBits = 7

// form says how a column is written, in the low two bits of its length. The values are stored: never change them.
type form uint8

const (
	// Columns of whole numbers.
	formPlain    form = 0 // the numbers
	formResidual form = 1 // less the first prediction
	formSecond   form = 2 // less the second prediction
	formFloats   form = 3 // not whole after all: a byte, 1 if there are special values, and then as formAll
	// Columns of floats.
	formAll          form = 0 // the values
	formSome         form = 1 // a bitmap of those that differ from the prediction, and these
	formAllSpecials  form = 2 // as formAll and formSome, with special values among them
	formSomeSpecials form = 3
)

// predict returns the first or second prediction of number i of a column of whole numbers, from columns before it.
func (s *scratch) predict(c columnID, f form, i int) int64 {
	n := &s.numbers
	if f == formSecond {
		switch c {
		case colChanges:
			return n[colCount][i] - 1
		case colSum:
			return n[colCount][i] * ((n[colMin][i] + n[colMax][i]) / 2)
		case colCorrection:
			if n[colResets][i] == 1 {
				return n[colMax][i]
			}
			return n[colResets][i] * s.middle(i)
		case colSquares:
			return s.squaresOfLine(i)
		}
		return 0
	}
	switch c {
	case colFirst:
		if i > 0 {
			return n[colLast][i-1]
		}
	case colLast:
		return n[colFirst][i]
	case colMin:
		return min(n[colFirst][i], n[colLast][i])
	case colMax:
		return max(n[colFirst][i], n[colLast][i])
	case colSum:
		return sumOfLine(n[colCount][i], n[colFirst][i], n[colLast][i])
	}
	return 0
}

// middle is the mean of bucket i, or what it may be if the sum is no whole number.
func (s *scratch) middle(i int) int64 {
	n := &s.numbers
	if sum := n[colSum][i]; sum != 0 {
		return sum / n[colCount][i]
	}
	return (n[colMin][i] + n[colMax][i]) / 2
}

// squaresOfLine is what colSquares is for numbers from first to last at equal distances, or 0 if that is too large.
func (s *scratch) squaresOfLine(i int) int64 {
	count, rise := float64(s.numbers[colCount][i]), float64(s.numbers[colLast][i]-s.numbers[colFirst][i])
	if count < 2 {
		return 0
	}
	x := float64(rise*rise) * float64(count*count*(count+1)/(12*(count-1)))
	if !(x < 1<<53) {
		return 0
	}
	return int64(x)
}

// predictFloat returns the prediction of value i of a column of floats, from columns before it.
func (s *scratch) predictFloat(c columnID, i int) float64 {
	v := &s.floats
	switch c {
	case colLast:
		return v[colFirst][i]
	case colMin:
		return lower(v[colFirst][i], v[colLast][i])
	case colMax:
		return higher(v[colFirst][i], v[colLast][i])
	case colMean:
		st := State{
			Count: s.numbers[colCount][i], Sum: v[colSum][i], SumLow: v[colSumLow][i], Min: v[colMin][i], Max: v[colMax][i],
		}
		return plainNaN(st.predictedMean())
	case colM2:
		if x := s.numbers[colSquares][i]; x != 0 && s.exponent >= 0 {
			return s.squaresToM2(i, x)
		}
	}
	return 0
}

// squaresToM2 is M2 of bucket i by the whole number in colSquares: M2 · Count · 10^(2 · exponent).
func (s *scratch) squaresToM2(i int, x int64) float64 {
	p := power(s.exponent)
	return roundBits(float64(x)/(float64(s.numbers[colCount][i])*(p*p)), momentBits)
}

// needs are the columns that must be read before c.
func needs() [columnsAll]uint16 {
	bits := func(columns ...columnID) (mask uint16) {
		for _, c := range columns {
			mask |= 1 << c
		}
		return mask
	}
	edges := bits(colFirst, colLast)
	extremes := edges | bits(colMin, colMax)
	return [columnsAll]uint16{
		colLastMs: bits(colCount), colChanges: bits(colCount), colFirst: bits(colLast), colLast: bits(colFirst),
		colMin: edges, colMax: edges, colSum: extremes | bits(colCount), colCorrection: extremes | bits(colResets, colCount, colSum),
		colSumLow: bits(colSum), colMean: extremes | bits(colCount, colSum, colSumLow),
		colSquares: edges | bits(colCount), colM2: bits(colCount, colSquares),
	}
}

// appendRunHead appends the start that every run of k values in a column has: one a second, from 0 on. Cells leave it
// out but for the flag of special values.
func appendRunHead(dst []byte, k int, specials bool) []byte {
	at := len(dst)
	if k == 1 {
		dst = append(dst, 0x87, 0, 0, 0)
	} else {
		dst = binary.AppendUvarint(append(dst, 0x89, 0, 0, 0), uint64(keyschema.HourMs/1000-k))
	}
	if specials {
		dst[at] |= runSpecials
	}
	return dst
}

// runSpecials is the flag of special values in the first byte of a run.
const runSpecials = 0x10

// readFormer reads the columns of a cell of the former version.
func (d *Decoder) readFormer(src []byte, wanted uint16) error {
	if d.s.exponent >= 0 {
		if len(src) == 0 || src[0] > exponentMax {
			return corrupt("exponent")
		}
		d.s.exponent, src = int(src[0]), src[1:]
	}
	if d.needs == [columnsAll]uint16{} {
		d.needs = needs()
	}
	d.s.floated = 1<<columnsAll - 1
	if err := d.parseColumns(src); err != nil {
		return err
	}
	if err := d.readAll(wanted); err != nil {
		return err
	}
	return d.checkTimes()
}

// parseColumns finds the columns that are stored.
func (d *Decoder) parseColumns(src []byte) error {
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
					d.s.floats[c][i] = float64(x) * lowUnit(d.s.floats[colSum][i], formerLowBits)
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
