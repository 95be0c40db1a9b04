package rollup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"halite/keyschema/run"
)

// Encoder packs states and keeps its scratch space between cells. It is not for concurrent use; the zero value is ready.
type Encoder struct {
	s      scratch
	run    run.Encoder
	tsMs   [BucketsMax]int64
	values [BucketsMax]float64
	packed [3][]byte
	some   []byte
}

// Append appends the cell of the states of consecutive buckets of bucketMs each, the first from fromMs on, for the place
// row and qualifier of a table. Only fields are stored; a state without samples may have nothing but Stale. There are 1
// to BucketsMax states. On an error, which wraps [ErrBadStates], dst is unchanged.
func (e *Encoder) Append(dst, row, qualifier []byte, fromMs, bucketMs int64, fields Fields, states []State) ([]byte, error) {
	if len(states) == 0 || len(states) > BucketsMax || fields&^FieldsAll != 0 {
		return dst, fmt.Errorf("%w: %d buckets with fields %#x", ErrBadStates, len(states), uint16(fields))
	}
	present, stale, err := e.load(fromMs, bucketMs, fields, states)
	if err != nil {
		return dst, err
	}
	start := len(dst)
	dst = e.appendHead(dst, fields, present, stale)
	if e.s.k > 0 {
		if dst, err = e.appendColumns(dst, fields); err != nil {
			return dst[:start], err
		}
	}
	return binary.LittleEndian.AppendUint32(dst, checksum(row, qualifier, dst[start:])), nil
}

// load spreads the states over the columns.
func (e *Encoder) load(fromMs, bucketMs int64, fields Fields, states []State) (present, stale uint32, err error) {
	s, of := &e.s, columnFields()
	s.n, s.k = len(states), 0
	for b := range states {
		st := &states[b]
		if st.Stale {
			stale |= 1 << b
		}
		if st.Count == 0 {
			continue
		}
		from := fromMs + int64(b)*bucketMs
		first, last := st.FirstMs-from, st.LastMs-from
		if st.Count < 0 || first < 0 || last < first || last >= bucketMs || st.Count > last-first+1 ||
			min(st.NaNs, st.Resets, st.Changes) < 0 || max(st.NaNs, st.Resets, st.Changes) > st.Count {
			return 0, 0, fmt.Errorf("%w: bucket %d: %d samples from %d to %d", ErrBadStates, b, st.Count, first, last)
		}
		present |= 1 << b
		i := s.k
		s.at[i] = b
		s.k++
		for c, x := range [...]int64{st.Count, first, last, st.NaNs, st.Resets, st.Changes} {
			s.numbers[c][i] = x
		}
		for c, v := range [columnsAll]float64{
			colFirst: st.First, colLast: st.Last, colMin: st.Min, colMax: st.Max, colSum: st.Sum,
			colCorrection: st.Correction, colSumLow: st.SumLow, colMean: st.Mean, colM2: st.M2,
		} {
			s.floats[c][i] = v
		}
	}
	for c := range columnsAll {
		if !fields.Has(of[c]) { // nothing may be predicted from what is not stored
			clear(s.numbers[c][:s.k])
			clear(s.floats[c][:s.k])
		}
	}
	return present, stale, nil
}

// appendHead appends what precedes the columns.
func (e *Encoder) appendHead(dst []byte, fields Fields, present, stale uint32) []byte {
	at := len(dst)
	dst = append(dst, cellVersion)
	if fields != FieldsAll {
		dst[at] |= flagFields
		dst = binary.LittleEndian.AppendUint16(dst, uint16(fields))
	}
	if present != 1<<e.s.n-1 {
		dst[at] |= flagGaps
		dst = appendBitmap(dst, present, e.s.n)
	}
	if stale != 0 && fields.Has(FieldStale) {
		dst[at] |= flagStale
		dst = appendBitmap(dst, stale, e.s.n)
	}
	e.s.exponent = -1
	if e.s.k > 0 && fields.Has(FieldEdges|FieldMin|FieldMax) && e.scale() {
		dst[at] |= flagDecimals
		dst = append(dst, byte(e.s.exponent))
	}
	return dst
}

func appendBitmap(dst []byte, bitmap uint32, n int) []byte {
	for ; n > 0; n -= 8 {
		dst = append(dst, byte(bitmap))
		bitmap >>= 8
	}
	return dst
}

// scale finds the exponent by which all edges and extremes become whole numbers, and makes them so.
func (e *Encoder) scale() bool {
	s, exponent, p := &e.s, 0, 1.0
	for c := colFirst; c <= colMax; c++ {
		for _, v := range s.floats[c][:s.k] {
			for {
				if _, ok := mantissa(v, p); ok {
					break
				}
				if exponent == exponentMax || !(math.Abs(v)*p < 1<<53) {
					return false
				}
				exponent++
				p = power(exponent)
			}
		}
	}
	for c := colFirst; c <= colMax; c++ {
		if !e.toNumbers(c, p) {
			return false
		}
	}
	for _, c := range [...]columnID{colSum, colCorrection} {
		for _, v := range s.floats[c][:s.k] {
			if v-v != 0 || v == 0 && math.Signbit(v) {
				return false
			}
		}
	}
	s.exponent = exponent
	return true
}

// toNumbers makes a column's values whole.
func (e *Encoder) toNumbers(c columnID, p float64) bool {
	for i, v := range e.s.floats[c][:e.s.k] {
		m, ok := mantissa(v, p)
		if !ok {
			return false
		}
		e.s.numbers[c][i] = m
	}
	return true
}

// appendColumns appends the mask of the columns that differ from their first prediction, and these.
func (e *Encoder) appendColumns(dst []byte, fields Fields) ([]byte, error) {
	at := len(dst)
	dst = append(dst, 0, 0)
	mask := uint16(0)
	of := columnFields()
	for c := range columnsAll {
		if !fields.Has(of[c]) {
			continue
		}
		body, f, err := e.column(c)
		if err != nil {
			return dst, err
		}
		if body == nil {
			continue
		}
		mask |= 1 << c
		dst = append(binary.AppendUvarint(dst, uint64(len(body))<<2|uint64(f)), body...)
	}
	binary.LittleEndian.PutUint16(dst[at:], mask)
	return dst, nil
}

// column packs a column; body is nil if all is as predicted.
func (e *Encoder) column(c columnID) (body []byte, f form, err error) {
	switch {
	case c == colSquares:
		return e.squares()
	case c == colSumLow:
		if e.lowsToNumbers() {
			return e.numberColumn(c)
		}
		return e.loneFloats(c)
	case c.isInteger():
		return e.numberColumn(c)
	case e.s.exponent < 0 || !c.isMantissa():
		return e.floatColumn(c)
	case c <= colMax || e.toNumbers(c, power(e.s.exponent)):
		return e.numberColumn(c)
	}
	return e.loneFloats(c)
}

// loneFloats packs a column of floats where whole numbers were expected.
func (e *Encoder) loneFloats(c columnID) (body []byte, f form, err error) {
	clear(e.s.numbers[c][:e.s.k])
	copy(e.values[:], e.s.floats[c][:e.s.k])
	body, specials, err := e.pack(0, e.s.k)
	e.some = append(e.some[:0], 0)
	if specials {
		e.some[0] = 1
	}
	e.some = append(e.some, body...)
	return e.some, formFloats, err
}

// lowsToNumbers makes SumLow whole, in units that the sums give.
func (e *Encoder) lowsToNumbers() bool {
	s := &e.s
	for i := range s.k {
		low, unit := s.floats[colSumLow][i], lowUnit(s.floats[colSum][i])
		x := low / unit
		if !(math.Abs(x) <= 1<<(lowBits+1)) || math.Float64bits(float64(int64(x))*unit) != math.Float64bits(low) {
			return false
		}
		s.numbers[colSumLow][i] = int64(x)
	}
	return true
}

// squares packs the whole numbers that M2 of decimals comes from, if that is smaller than M2; the buckets whose M2 they
// do not give to the last bit are packed with M2.
func (e *Encoder) squares() (body []byte, f form, err error) {
	s := &e.s
	numbers := &s.numbers[colSquares]
	clear(numbers[:s.k])
	if s.exponent < 0 {
		return nil, 0, nil
	}
	plain, _, err := e.floatColumn(colM2)
	if err != nil || plain == nil {
		return nil, 0, err
	}
	plainBytes, p := len(plain), power(s.exponent)
	for i := range s.k {
		x := s.floats[colM2][i] * float64(s.numbers[colCount][i]) * (p * p)
		if !(x >= 0 && x < 1<<53) {
			clear(numbers[:s.k])
			return nil, 0, nil
		}
		numbers[i] = int64(math.Round(x))
	}
	rest, _, err := e.floatColumn(colM2)
	if err != nil {
		return nil, 0, err
	}
	restBytes := len(rest)
	if body, f, err = e.numberColumn(colSquares); err == nil && len(body)+restBytes >= plainBytes {
		clear(numbers[:s.k])
		body = nil
	}
	return body, f, err
}

// numberColumn packs whole numbers by whichever prediction makes them smallest.
func (e *Encoder) numberColumn(c columnID) (body []byte, f form, err error) {
	s := &e.s
	var best []byte
	for try := formPlain; try <= formSecond; try++ {
		if try == formSecond && c != colChanges && c != colSum && c != colCorrection && c != colSquares ||
			try == formResidual && (c.isInteger() || c == colCorrection) {
			continue // predicted as 0, like formPlain
		}
		zero, fits := true, true
		for i := range s.k {
			x := s.numbers[c][i]
			if try != formPlain {
				x -= s.predict(c, try, i)
			}
			zero = zero && x == 0
			fits = fits && x > -1<<53 && x < 1<<53
			e.values[i] = float64(x)
		}
		if zero && (try == formResidual || try == formPlain && (c.isInteger() || c == colCorrection)) {
			return nil, 0, nil
		}
		if !fits {
			continue // a plain number always fits
		}
		packed, specials, err := e.pack(int(try), s.k)
		if err != nil || specials {
			return nil, 0, errors.Join(err, fmt.Errorf("%w: column %d", ErrBadStates, c))
		}
		if best == nil || len(packed) < len(best) {
			best, f = packed, try
		}
	}
	return best, f, nil
}

// floatColumn packs values: all, or those that differ from their prediction.
func (e *Encoder) floatColumn(c columnID) (body []byte, f form, err error) {
	s := &e.s
	differ, picked := uint32(0), 0
	for i := range s.k {
		v := s.floats[c][i]
		if math.Float64bits(v) != math.Float64bits(s.predictFloat(c, i)) {
			differ |= 1 << i
			e.values[picked] = v
			picked++
		}
	}
	if picked == 0 {
		return nil, 0, nil
	}
	body, specials, err := e.pack(0, picked)
	f = formAll
	if picked < s.k {
		f = formSome
		e.some = append(appendBitmap(e.some[:0], differ, s.k), body...)
		body = e.some
	}
	if specials {
		f += formAllSpecials
	}
	return body, f, err
}

// pack packs the first k of e.values, without the head that all runs of k values share.
func (e *Encoder) pack(to, k int) (body []byte, specials bool, err error) {
	for i := range k {
		e.tsMs[i] = int64(i) * 1000
	}
	packed, err := e.run.Append(e.packed[to][:0], 0, e.tsMs[:k], e.values[:k])
	e.packed[to] = packed
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrBadStates, err)
	}
	specials = packed[0]&runSpecials != 0
	head := 4
	if k > 1 {
		head += (bits.Len(uint(3600-k)) + 6) / 7
	}
	return packed[head:], specials, nil
}
