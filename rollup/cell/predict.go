package cell

import "halite/rollup"

// predict fills in the predictions of a column, in its encoding, from the columns before it.
func (t *table) predict(c columnID, second bool) {
	out := t.predicted[:t.rows]
	switch {
	case c == colM2 || c >= colSum && t.encodings[c] != asInteger:
		t.predictFloats(out, c, second)
	case c == colChanges:
		for i, count := range t.ints[colCount][:len(out)] {
			out[i] = count - 1
		}
	case c == colLast:
		firsts := t.ints[colFirst][:len(out)]
		copy(out, firsts[1:])
		out[len(out)-1] = firsts[len(firsts)-1]
	case c == colMin:
		lasts := t.ints[colLast][:len(out)]
		for i, first := range t.ints[colFirst][:len(out)] {
			out[i] = min(first, lasts[i])
		}
	case c == colMax:
		lasts := t.ints[colLast][:len(out)]
		for i, first := range t.ints[colFirst][:len(out)] {
			out[i] = max(first, lasts[i])
		}
	case c == colSum:
		t.predictSums(out, second)
	case c == colCorrection:
		for i := range out {
			out[i] = t.predictCorrection(i)
		}
	default:
		clear(out)
	}
}

// predictSums predicts sums of integers on a line from first to last, or around the middle of the extremes.
func (t *table) predictSums(out []int64, second bool) {
	n := &t.ints
	for i := range out {
		count := n[colCount][i]
		if second {
			out[i] = count * ((n[colMin][i] + n[colMax][i]) / 2)
			continue
		}
		ends := n[colFirst][i] + n[colLast][i]
		out[i] = count*(ends>>1) + (ends&1)*(count>>1)
	}
}

// predictCorrection predicts the sum of the values before the resets of row i: the maximum, or the mean each time.
func (t *table) predictCorrection(i int) int64 {
	n := &t.ints
	switch resets := n[colResets][i]; {
	case resets == 1:
		return n[colMax][i]
	case t.encodings[colSum] == asInteger:
		return resets * (n[colSum][i] / n[colCount][i])
	default:
		return resets * ((n[colMin][i] + n[colMax][i]) / 2)
	}
}

// predictFloats predicts columns whose predictions are computed in floating point.
func (t *table) predictFloats(out []int64, c columnID, second bool) {
	unit := 1.0
	if t.encodings[c] == asInteger {
		unit = t.unit()
	}
	for i := range out {
		f := t.predictFloat(c, second, i)
		if f != f {
			f = 0 // the bits of NaN differ between machines
		}
		switch t.encodings[c] {
		case asInteger:
			out[i] = 0
			if f *= float64(unit * unit); f < 1<<53 {
				out[i] = int64(f)
			}
		case asShortBits:
			out[i] = orderedBits(f) >> droppedBits
		default:
			out[i] = orderedBits(f)
		}
	}
}

// predictFloat predicts the value of row i.
func (t *table) predictFloat(c columnID, second bool, i int) float64 {
	v := &t.floats
	count := float64(t.ints[colCount][i])
	switch c {
	case colSum:
		if second {
			return count * ((v[colMin][i] + v[colMax][i]) / 2)
		}
		return count * ((v[colFirst][i] + v[colLast][i]) / 2)
	case colCorrection:
		switch resets := t.ints[colResets][i]; resets {
		case 0:
			return 0
		case 1:
			return v[colMax][i]
		default:
			return float64(resets) * (v[colSum][i] / count)
		}
	case colMean:
		s := rollup.State{
			Count: t.ints[colCount][i], Sum: v[colSum][i], SumLow: v[colSumLow][i], Min: v[colMin][i], Max: v[colMax][i],
		}
		return s.ExpectedMean()
	case colM2:
		if count < 2 {
			return 0
		}
		if second { // evenly spread between the extremes, with some in the middle
			d := v[colMax][i] - v[colMin][i]
			return float64(d*d) * float64(count/24)
		}
		d := v[colLast][i] - v[colFirst][i] // a line from first to last
		return float64(d*d) * float64(count*(count+1)/(12*(count-1)))
	}
	return 0
}
