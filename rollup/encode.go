package rollup

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Encoder packs states and keeps its scratch space between cells. It is not for concurrent use; the zero value is ready.
type Encoder struct {
	s     scratch
	bits  bitWriter
	plans [2]plan // the best so far, and the next
	rest  [BucketsMax]int64
	off   [BucketsMax]int64 // M2 less what its whole part gives
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
		dst = e.appendColumns(dst, fields)
	}
	return binary.LittleEndian.AppendUint32(dst, checksum(row, qualifier, dst[start:])), nil
}

// load spreads the states over the columns.
func (e *Encoder) load(fromMs, bucketMs int64, fields Fields, states []State) (present, stale uint32, err error) {
	s, of := &e.s, columnFields()
	s.n, s.k, s.bucketMs, s.floated = len(states), 0, bucketMs, 1<<columnsAll-1
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

// appendColumns appends the columns, bit by bit.
func (e *Encoder) appendColumns(dst []byte, fields Fields) []byte {
	s, b := &e.s, &e.bits
	*b = bitWriter{dst: dst}
	if s.exponent >= 0 {
		b.put(uint64(s.exponent), exponentBits)
	}
	e.grid()
	s.divisor = 1
	if s.exponent >= 0 {
		e.divide()
	}
	still := e.still()
	b.putFlag(still)
	s.falls = false
	for _, resets := range s.numbers[colResets][:s.k] {
		s.falls = s.falls || resets >= fallsFrom
	}
	b.putFlag(s.falls)
	for c := range colMean { // predictions ask for kinds of later columns
		s.kinds[c] = e.makeNumbers(c)
	}
	s.lows, s.rise = [columnsAll]uint{}, [BucketsMax]int64{}
	of := columnFields()
	for _, c := range s.order() {
		if fields.Has(of[c]) && !(still && c.isStill()) {
			e.column(c)
		}
	}
	return b.close()
}

// grid finds the interval that most buckets have, and writes it with the phase.
func (e *Encoder) grid() {
	s, b := &e.s, &e.bits
	s.intervalMs = s.bucketMs
	interval := func(i int) int64 {
		count := s.numbers[colCount][i]
		if count < 2 {
			return 0
		}
		return (s.numbers[colLastMs][i] - s.numbers[colFirstMs][i] + (count-1)/2) / (count - 1)
	}
	most := 0
	for i := range s.k {
		of, same := interval(i), 0
		if of == 0 || of == s.intervalMs {
			continue
		}
		for j := range s.k {
			if interval(j) == of {
				same++
			}
		}
		if same > most {
			s.intervalMs, most = of, same
		}
	}
	s.phaseMs = s.numbers[colFirstMs][0] % s.intervalMs
	code := uint64(0)
	for i, ms := range usualIntervals() {
		if ms == s.intervalMs {
			code = uint64(i)
		}
	}
	b.put(code, intervalBits)
	if code == 0 {
		b.putLong(uint64(s.intervalMs))
	}
	b.put(uint64(s.phaseMs), phaseBits(s.intervalMs))
}

// divide divides all mantissas by what they have in common, and writes it.
func (e *Encoder) divide() {
	s, g := &e.s, int64(0)
	for c := colFirst; c <= colMax && g != 1; c++ {
		for _, x := range s.numbers[c][:s.k] {
			for x != 0 { // Euclid's
				g, x = x, g%x
			}
		}
	}
	s.divisor = max(g, -g, 1)
	e.bits.putFlag(s.divisor > 1)
	if s.divisor == 1 {
		return
	}
	e.bits.putLong(uint64(s.divisor))
	for c := colFirst; c <= colMax; c++ {
		for i := range s.numbers[c][:s.k] {
			s.numbers[c][i] /= s.divisor
		}
	}
}

// still tells that no value changes within its bucket.
func (e *Encoder) still() bool {
	s := &e.s
	for i := range s.k {
		v := math.Float64bits(s.floats[colFirst][i])
		if s.numbers[colChanges][i]|s.numbers[colResets][i] != 0 || math.Float64bits(s.floats[colCorrection][i]) != 0 {
			return false
		}
		for _, c := range [...]columnID{colLast, colMin, colMax} {
			if math.Float64bits(s.floats[c][i]) != v {
				return false
			}
		}
	}
	return true
}

// makeNumbers makes the numbers in which a column is written.
func (e *Encoder) makeNumbers(c columnID) kind {
	s := &e.s
	switch {
	case c < colFirst || s.exponent >= 0 && (c <= colMax || c <= colCorrection && e.divided(c)):
		return kindNumbers
	case c == colSumLow && e.lowsToNumbers():
		return kindNumbers
	case c == colM2 && e.momentsShort():
		if e.momentsWhole() {
			return kindNumbers
		}
		e.momentsShort()
		return kindShort
	}
	for i, v := range s.floats[c][:s.k] {
		s.numbers[c][i] = orderedBits(v)
	}
	return kindBits
}

// divided makes mantissas of a column that may have none, or others than multiples of the divisor.
func (e *Encoder) divided(c columnID) bool {
	x := e.s.numbers[c][:e.s.k]
	if !e.toNumbers(c, power(e.s.exponent)) {
		return false
	}
	for i := range x {
		if x[i]%e.s.divisor != 0 {
			return false
		}
		x[i] /= e.s.divisor
	}
	return true
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

// momentsShort makes M2 numbers without the bits that Compute leaves 0.
func (e *Encoder) momentsShort() bool {
	s := &e.s
	for i, v := range s.floats[colM2][:s.k] {
		x := orderedBits(v)
		if x&(1<<momentDrop-1) != 0 {
			return false
		}
		s.numbers[colM2][i] = x >> momentDrop
	}
	return true
}

// wholeMax is above the whole parts that take fewer bits than all of M2.
const wholeMax = 1 << momentBits

// momentsWhole makes the whole parts of M2, of which the sums give the rest, and notes how far off this is.
func (e *Encoder) momentsWhole() bool {
	s := &e.s
	if s.exponent < 0 || s.kinds[colSum] != kindNumbers {
		return false
	}
	unit := s.unit()
	for i, v := range s.floats[colM2][:s.k] {
		count := s.numbers[colCount][i]
		x := math.Round(v*(unit*unit) - float64(momentRest(count, s.numbers[colSum][i]))/float64(count))
		if !(x > -wholeMax && x < wholeMax) {
			return false
		}
		s.numbers[colM2][i] = int64(x)
		e.off[i] = (orderedBits(v) - orderedBits(s.wholeToM2(i, int64(x)))) >> momentDrop
	}
	return true
}

// column writes one column.
func (e *Encoder) column(c columnID) {
	s := &e.s
	if c >= colMean {
		s.kinds[c] = e.makeNumbers(c)
	}
	if w := s.kindWidth(c); w > 0 {
		e.bits.put(uint64(s.kinds[c]), w)
	}
	e.numbers(c)
	if c == colM2 && s.kinds[c] == kindNumbers {
		e.offsets()
	}
}

// offsets writes how far M2 is from what the whole parts give, which is seldom.
func (e *Encoder) offsets() {
	off, some := e.off[:e.s.k], false
	for _, x := range off {
		some = some || x != 0
	}
	e.bits.putFlag(some)
	if some {
		e.plans[0].make(off, 0)
		e.plans[0].append(&e.bits, len(off))
	}
}

// numbers writes the numbers of a column by whichever guess takes the fewest bits.
func (e *Encoder) numbers(c columnID) {
	s, b := &e.s, &e.bits
	from := c.leads()
	like := s.like(c)
	best, with := -1, guess(0)
	for g := guessFirst; g <= guessThird; g++ {
		if right := e.residuals(c, g); right && g == guessFirst {
			b.putFlag(false)
			return
		}
		next := 0
		if best == 0 {
			next = 1
		}
		e.plans[next].size = 0
		if s.k > from {
			e.plans[next].make(e.rest[from:s.k], like)
		}
		if best < 0 || e.plans[next].size < e.plans[best].size {
			best, with = next, g
		}
	}
	b.putFlag(true)
	b.put(uint64(with), guessBits)
	e.residuals(c, with)
	if from > 0 {
		b.putLong(zigzag(e.rest[0]))
	}
	if s.k > from {
		p := &e.plans[best]
		if p.append(b, s.k-from); p.way != wayEqual {
			s.lows[c] = p.low
		}
	}
}

// leads is how many numbers of a column stand in front, because they are unlike the others.
func (c columnID) leads() int {
	if c == colFirst {
		return 1
	}
	return 0
}

// residuals are a column's numbers less a guess, or the other way round of minima. It tells whether all are 0.
func (e *Encoder) residuals(c columnID, g guess) (right bool) {
	s := &e.s
	s.guesses(c, g)
	right = true
	for i, x := range s.numbers[c][:s.k] {
		rest := x - s.guessed[i]
		if c == colMin {
			rest = -rest
		}
		e.rest[i] = rest
		right = right && rest == 0
	}
	if c == colLast {
		s.rise = e.rest
	}
	return right
}
