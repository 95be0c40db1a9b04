package rollup

import (
	"math"
	"math/bits"
)

// guess is one of the predictions of a column. The values are stored: never change them.
type guess uint8

const (
	guessFirst  guess = 1
	guessSecond guess = 2
	guessThird  guess = 3 // 0 but of sums
	guessBits         = 2
)

// kind says what the numbers of a column of values are. The values are stored: never change them.
type kind uint8

const (
	kindNumbers kind = 0 // mantissas by the divisor; of SumLow units, of M2 whole parts
	kindBits    kind = 1 // bit patterns in the order of the values
	kindShort   kind = 2 // of M2: the same without the lowest momentDrop bits, which are 0
)

const momentDrop = 53 - momentBits

// kindWidth is the number of bits that say what a column's numbers are; where it is 0 that follows from the cell.
func (s *scratch) kindWidth(c columnID) uint {
	switch {
	case c == colM2:
		return 2
	case c == colSumLow || s.exponent >= 0 && (c == colSum || c == colCorrection):
		return 1
	}
	return 0
}

// usualKind is the kind of a column of which nothing else is said.
func (s *scratch) usualKind(c columnID) kind {
	if c < colFirst || s.exponent >= 0 && c <= colCorrection {
		return kindNumbers
	}
	return kindBits
}

// order is that of the columns in a cell: each is predicted from ones before it. The correction helps to predict the
// extremes and sums of what seldom falls; of what falls often, it is itself predicted from sums. First comes behind last,
// the residual of which, the rise, helps to predict it.
func (s *scratch) order() [columnsAll]columnID {
	if s.falls {
		return [...]columnID{
			colFirstMs, colCount, colLastMs, colNaNs, colChanges, colResets, colLast, colFirst, colMin, colMax,
			colSum, colSumLow, colCorrection, colMean, colM2,
		}
	}
	return [...]columnID{
		colFirstMs, colCount, colLastMs, colNaNs, colChanges, colResets, colLast, colFirst, colCorrection, colMin, colMax,
		colSum, colSumLow, colMean, colM2,
	}
}

// isStill tells whether the column follows from the first values if no value changes within its bucket.
func (c columnID) isStill() bool {
	return c == colChanges || c == colResets || c == colCorrection || c == colLast || c == colMin || c == colMax
}

// known tells whether the corrections are mantissas and come before extremes and sums.
func (s *scratch) known() bool { return !s.falls && s.kinds[colCorrection] == kindNumbers }

// guesses fills in what a column is predicted to be, in the numbers that it is written in.
func (s *scratch) guesses(c columnID, g guess) {
	if g == guessThird && c != colSum {
		clear(s.guessed[:s.k])
		return
	}
	switch {
	case c == colFirst:
		s.guessFirsts(g)
	case c == colSum && s.kinds[c] == kindNumbers:
		s.guessSums(g)
	case c == colM2 || c == colMean || c >= colSum && s.kinds[c] != kindNumbers:
		s.guessFloats(c, g)
	case c <= colLastMs:
		s.guessTimes(c)
	case c == colMin && g == guessFirst:
		lasts := s.numbers[colLast][:s.k]
		for i, first := range s.numbers[colFirst][:len(lasts)] {
			s.guessed[i] = min(first, lasts[i])
		}
	default:
		for i := range s.k {
			s.guessed[i] = s.guessOne(c, g, i)
		}
	}
}

// guessTimes predicts times and counts by the grid.
func (s *scratch) guessTimes(c columnID) {
	firsts, counts, guessed := s.numbers[colFirstMs][:s.k], s.numbers[colCount][:s.k], s.guessed[:s.k]
	switch c {
	case colFirstMs:
		for i := range guessed {
			guessed[i] = s.phaseMs
		}
	case colCount:
		for i, first := range firsts {
			if i > 0 && first == firsts[i-1] {
				guessed[i] = guessed[i-1]
				continue
			}
			guessed[i] = (s.bucketMs-1-first)/s.intervalMs + 1
		}
	case colLastMs:
		for i, first := range firsts {
			guessed[i] = first + (counts[i]-1)*s.intervalMs
		}
	}
}

// guessOne predicts a number of bucket i. Edges and extremes are alike in what is predicted of mantissas and of bits.
func (s *scratch) guessOne(c columnID, g guess, i int) int64 {
	n := &s.numbers
	second := g == guessSecond
	switch c {
	case colChanges:
		if !second {
			return n[colCount][i] - 1
		}
	case colResets:
		if second {
			return n[colChanges][i] / 2
		}
	case colLast:
		if second && s.known() {
			return n[colFirst][i] - n[colCorrection][i]
		}
		return n[colFirst][i]
	case colCorrection:
		return s.guessCorrection(g, i)
	case colMin:
		if second && n[colResets][i] > 0 {
			return 0
		}
		return min(n[colFirst][i], n[colLast][i])
	case colMax:
		if n[colResets][i] == 1 && s.known() {
			return max(n[colFirst][i], n[colLast][i], n[colCorrection][i])
		}
		return max(n[colFirst][i], n[colLast][i])
	}
	return 0
}

// guessCorrection predicts the correction of bucket i in mantissas.
func (s *scratch) guessCorrection(g guess, i int) int64 {
	switch resets := s.numbers[colResets][i]; {
	case g != guessFirst || resets == 0:
		return 0
	case s.falls:
		return resets * s.mean(i)
	default:
		return resets * s.numbers[colFirst][i]
	}
}

// guessFirsts predicts first values: the last of the bucket before, and by the second guess a usual step more.
func (s *scratch) guessFirsts(g guess) {
	before := int64(0)
	for i := range s.k {
		s.guessed[i] = before
		if g == guessSecond && i > 0 {
			s.guessed[i] += s.step(i)
		}
		before = s.numbers[colLast][i]
	}
}

// step is the mean step between samples of bucket i.
func (s *scratch) step(i int) int64 { return s.rise[i] / max(1, s.numbers[colCount][i]-1) }

// guessSums predicts sums of mantissas: of lines between edges, from extremes, and of lines that grow steeper.
func (s *scratch) guessSums(g guess) {
	n := &s.numbers
	plain := g == guessFirst // as lineSum gives it without resets
	for i := 0; plain && i < s.k; i++ {
		s.guessed[i] = sumOfLine(n[colCount][i], n[colFirst][i], n[colLast][i])
		plain = n[colResets][i] == 0
	}
	for i := 0; !plain && i < s.k; i++ {
		count := n[colCount][i]
		switch r := n[colResets][i]; {
		case g == guessFirst:
			s.guessed[i] = s.lineSum(i)
		case g == guessSecond:
			s.guessed[i] = count * ((n[colMin][i] + n[colMax][i]) / 2)
		case r > 1 && s.known():
			s.guessed[i] = count * (n[colCorrection][i] / r)
		default:
			s.guessed[i] = s.lineSum(i) - count*(s.gain(i+1)-s.gain(i-1))/24
		}
	}
}

// gain is what the values of bucket i grow by, or of that at the edge if there is no such bucket.
func (s *scratch) gain(i int) int64 {
	i = min(max(i, 0), s.k-1)
	gain := s.numbers[colLast][i] - s.numbers[colFirst][i]
	if s.known() {
		gain += s.numbers[colCorrection][i]
	}
	return gain
}

// mean is that of bucket i, or what it may be if the sum is no whole number.
func (s *scratch) mean(i int) int64 {
	n := &s.numbers
	if s.kinds[colSum] == kindNumbers {
		return n[colSum][i] / n[colCount][i]
	}
	return (n[colMin][i] + n[colMax][i]) / 2
}

// lineSum is the sum of bucket i if its values lie on a line from first to last, or on two around a reset.
func (s *scratch) lineSum(i int) int64 {
	n := &s.numbers
	count, first, last := n[colCount][i], n[colFirst][i], n[colLast][i]
	if before, low := s.broken(i); before > 0 {
		return sumOfLine(before, first, n[colCorrection][i]) + sumOfLine(count-before, low, last)
	}
	return sumOfLine(count, first, last)
}

// broken is how many samples of bucket i come before its only reset, if they lie on two lines of one slope, and the least
// value, with which the second begins; else 0.
func (s *scratch) broken(i int) (before, low int64) {
	n := &s.numbers
	if n[colResets][i] != 1 || !s.known() {
		return 0, 0
	}
	low = n[colMin][i]
	a, b := n[colCorrection][i]-n[colFirst][i], n[colLast][i]-low
	if a < 0 || b < 0 || a+b <= 0 {
		return 0, 0
	}
	return int64(float64(n[colCount][i]) * (float64(a) / float64(a+b))), low
}

// guessFloats is guesses for columns that are predicted in floats.
func (s *scratch) guessFloats(c columnID, g guess) {
	for i := range s.k {
		var f float64
		if c == colM2 {
			f = s.guessMoment(g, i)
		} else {
			f = s.guessFloat(c, g, i)
		}
		if f != f {
			f = 0 // bits of NaN differ between machines
		}
		x := orderedBits(f)
		switch s.kinds[c] {
		case kindNumbers:
			x = 0
			if f < 1<<53 {
				x = int64(f)
			}
		case kindShort:
			x >>= momentDrop
		}
		s.guessed[i] = x
	}
}

// guessFloat predicts a float of bucket i from others, which are computed if need be.
func (s *scratch) guessFloat(c columnID, g guess, i int) float64 {
	count, r := float64(s.numbers[colCount][i]), float64(s.numbers[colResets][i])
	v := func(c columnID) float64 { return s.values(c)[i] }
	switch c {
	case colSum:
		switch {
		case g == guessFirst:
			return count * ((v(colFirst) + v(colLast)) / 2)
		case g == guessSecond:
			return count * ((v(colMin) + v(colMax)) / 2)
		case r > 0 && !s.falls:
			return count * (v(colCorrection) / r)
		}
	case colCorrection:
		switch {
		case r == 0 || g == guessSecond:
		case s.falls:
			return r * (v(colSum) / count)
		default:
			return r * v(colFirst)
		}
	case colMean:
		st := State{
			Count: s.numbers[colCount][i], Sum: v(colSum), SumLow: v(colSumLow), Min: v(colMin), Max: v(colMax),
		}
		return st.predictedMean()
	}
	return 0
}

// guessMoment predicts M2 of bucket i: that of a line from first to last, or of two around a reset; or from extremes. It
// is in squares of mantissas if the column's numbers are.
func (s *scratch) guessMoment(g guess, i int) float64 {
	count := float64(s.numbers[colCount][i])
	if count < 2 {
		return 0
	}
	span := func(high, low columnID) float64 {
		if s.exponent < 0 {
			return s.values(high)[i] - s.values(low)[i]
		}
		return float64(s.numbers[high][i] - s.numbers[low][i])
	}
	unit := 1.0
	if s.exponent >= 0 && s.kinds[colM2] != kindNumbers {
		unit = s.unit()
	}
	if g == guessSecond {
		d := span(colMax, colMin) / unit
		return float64(d*d) * float64(count/24)
	}
	before, _ := s.broken(i)
	if s.exponent < 0 || before == 0 {
		d := span(colLast, colFirst) / unit
		return float64(d*d) * float64(count*(count+1)/(12*(count-1)))
	}
	a, b := span(colCorrection, colFirst)/unit, span(colLast, colMin)/unit
	gap := (span(colCorrection, colMin) + span(colFirst, colLast)) / unit / 2
	x, y := float64(before), count-float64(before)
	return float64(x*(a*a))/12 + float64(y*(b*b))/12 + float64(x*y/count*(gap*gap))
}

// values are the floats of a column.
func (s *scratch) values(c columnID) *[BucketsMax]float64 {
	v := &s.floats[c]
	if s.floated>>c&1 != 0 {
		return v
	}
	s.floated |= 1 << c
	switch {
	case s.kinds[c] == kindBits:
		for i, x := range s.numbers[c][:s.k] {
			v[i] = fromOrdered(x)
		}
	case c == colM2 && s.kinds[c] == kindShort:
		for i, x := range s.numbers[c][:s.k] {
			v[i] = fromOrdered(x << momentDrop)
		}
	case c == colSumLow:
		sums := s.values(colSum)
		for i, x := range s.numbers[c][:s.k] {
			if v[i] = 0; x != 0 {
				v[i] = float64(x) * lowUnit(sums[i])
			}
		}
	default:
		p := power(s.exponent)
		for i, x := range s.numbers[c][:s.k] {
			v[i] = float64(x*s.divisor) / p
		}
	}
	return v
}

// unit is how many numbers of a cell of decimals are one.
func (s *scratch) unit() float64 { return power(s.exponent) / float64(s.divisor) }

// momentRest is what whole squares have beyond a multiple of count: they are count · Q − sum².
func momentRest(count, sum int64) int64 {
	r := sum % count
	if r = -(r * r) % count; r < 0 {
		r += count
	}
	return r
}

// wholeToM2 is M2 of bucket i by its whole part, in squares of mantissas, and the sum.
func (s *scratch) wholeToM2(i int, x int64) float64 {
	count, unit := s.numbers[colCount][i], s.unit()
	squares := float64(float64(count)*float64(x)) + float64(momentRest(count, s.numbers[colSum][i]))
	return roundBits(squares/(float64(count)*(unit*unit)), momentBits)
}

// orderedBits maps a float to a whole number: larger floats to larger ones, and 0 to 0. fromOrdered is its inverse.
func orderedBits(v float64) int64 {
	b := int64(math.Float64bits(v))
	return b ^ int64(uint64(b>>63)>>1)
}

func fromOrdered(x int64) float64 { return math.Float64frombits(uint64(x ^ int64(uint64(x>>63)>>1))) }

// like is how many low bits of a column's numbers are likely to be written as they are.
func (s *scratch) like(c columnID) uint {
	size := uint(bits.Len64(uint64(s.numbers[colCount][0])))
	floats := s.kinds[c] != kindNumbers
	switch c {
	case colChanges, colResets, colSumLow:
		return 1
	case colLast:
		if floats {
			return 48
		}
		return 10
	case colFirst:
		if floats {
			return 48
		}
		return max(4, s.lows[colLast]) - 4
	case colMin:
		return s.lows[colLast]
	case colMax:
		if s.lows[colMin] > 0 {
			return s.lows[colMin]
		}
		return s.lows[colLast]
	case colSum:
		if floats {
			return 47
		}
		return s.lows[colLast] + max(3, size) - 3
	case colCorrection:
		switch {
		case floats:
			return 47
		case s.falls:
			return max(1, s.lows[colSum]) - 1
		}
		return s.lows[colFirst] + 4
	case colM2:
		if floats {
			return 33
		}
		return min(33, 2*s.lows[colLast]+size)
	}
	return 6
}
