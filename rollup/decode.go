package rollup

import "encoding/binary"

// Decoder unpacks cells and keeps its scratch space between them. It is not for concurrent use; the zero value is ready.
type Decoder struct {
	s       scratch
	bits    bitReader
	stored  Fields
	stale   uint32
	of      [columnsAll]Fields
	guesses [columnsAll]guess
}

// Decode reads a cell of n buckets that was stored at row and qualifier and sets those of its buckets that c has; the
// cell's first bucket begins at fromMs, and its buckets are as long as those of c. Only the columns of c.Fields are
// unpacked. stored are the fields that the cell has. An error wraps [ErrCorrupt], and c is then unchanged.
func (d *Decoder) Decode(c *Columns, row, qualifier, cell []byte, fromMs int64, n int) (stored Fields, err error) {
	if n < 1 || n > BucketsMax {
		return 0, corrupt("%d buckets", n)
	}
	src, err := d.parse(row, qualifier, cell, n)
	if err != nil {
		return 0, err
	}
	d.of = columnFields()
	wanted := uint16(0)
	for col := range columnsAll {
		if d.of[col] == 0 || c.Fields&d.of[col] != 0 {
			wanted |= 1 << col
		}
	}
	d.s.bucketMs = c.BucketMs
	switch {
	case d.s.k == 0:
		if wanted = 0; len(src) != 0 {
			err = corrupt("%d bytes about no samples", len(src))
		}
	default:
		err = d.readColumns(src, wanted)
	}
	if err != nil {
		return 0, err
	}
	d.store(c, fromMs, wanted)
	return d.stored, nil
}

// parse reads what precedes the columns, and returns these.
func (d *Decoder) parse(row, qualifier, cell []byte, n int) (src []byte, err error) {
	end := len(cell) - checksumBytes
	if end < 1 {
		return nil, corrupt("%d bytes", len(cell))
	}
	if got := binary.LittleEndian.Uint32(cell[end:]); got != checksum(row, qualifier, cell[:end]) {
		return nil, corrupt("checksum")
	}
	head := cell[0]
	if head&versionMask != cellVersion {
		return nil, corrupt("version %d is unknown", head>>4)
	}
	src = cell[1:end]
	d.stored, d.stale, d.s.n, d.s.k, d.s.exponent = FieldsAll, 0, n, 0, -1
	if head&flagFields != 0 {
		if len(src) < 2 {
			return nil, corrupt("fields are cut off")
		}
		d.stored = Fields(binary.LittleEndian.Uint16(src))
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
			return nil, corrupt("bitmap of stale ends")
		}
	}
	if head&flagDecimals != 0 {
		d.s.exponent = 0 // or what follows
	}
	for b := range n {
		if present>>b&1 != 0 {
			d.s.at[d.s.k] = b
			d.s.k++
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

// readColumns reads the columns up to the last that is wanted.
func (d *Decoder) readColumns(src []byte, wanted uint16) error {
	s, b := &d.s, &d.bits
	*b = bitReader{src: src}
	s.floated, s.lows, s.rise, s.divisor = 0, [columnsAll]uint{}, [BucketsMax]int64{}, 1
	if s.exponent >= 0 {
		s.exponent = int(b.get(exponentBits))
	}
	if !d.readGrid() {
		return corrupt("interval")
	}
	if s.exponent >= 0 && b.getFlag() {
		if s.divisor = int64(b.getLong()); s.divisor < 1 || s.divisor >= 1<<53 {
			return corrupt("divisor")
		}
	}
	still := b.getFlag()
	s.falls = b.getFlag()
	for c := range columnsAll {
		s.kinds[c] = s.usualKind(c)
	}
	order := s.order()
	last := len(order) - 1
	for wanted>>order[last]&1 == 0 {
		last--
	}
	if order[last] == colFirst && !s.falls {
		last++
	}
	for at, c := range order[:last+1] {
		if err := d.readColumn(c, still && c.isStill()); err != nil {
			return err
		}
		if c == colLastMs {
			if err := d.checkTimes(); err != nil {
				return err
			}
		}
		if at == len(order)-1 && !b.rest() {
			return corrupt("bytes behind the columns")
		}
	}
	for c := colFirst; c < columnsAll; c++ {
		if wanted>>c&1 != 0 {
			s.values(c)
		}
	}
	return nil
}

// readGrid reads interval and phase.
func (d *Decoder) readGrid() bool {
	s, b := &d.s, &d.bits
	if s.intervalMs = usualIntervals()[b.get(intervalBits)]; s.intervalMs == 0 {
		s.intervalMs = int64(b.getLong())
	}
	if s.intervalMs < 1 || s.intervalMs > s.bucketMs {
		return false
	}
	s.phaseMs = int64(b.get(phaseBits(s.intervalMs)))
	return s.phaseMs < s.intervalMs
}

// readColumn reads one column. Edges and corrections, which lean on each other, are complete with the last of them.
func (d *Decoder) readColumn(c columnID, still bool) error {
	s, b := &d.s, &d.bits
	x := s.numbers[c][:s.k]
	d.guesses[c] = guessFirst
	switch {
	case !d.stored.Has(d.of[c]):
		clear(x)
		clear(s.floats[c][:s.k])
		s.floated |= 1 << c
		if c == colCorrection && !s.falls {
			d.restoreEdges(false)
		}
		return nil
	case still && c.isStill():
		clear(x)
		if c == colChanges {
			return nil
		}
	default:
		if w := s.kindWidth(c); w > 0 {
			s.kinds[c] = kind(b.get(w))
		}
		if c == colM2 && (s.kinds[c] > kindShort || s.kinds[c] == kindNumbers && (s.exponent < 0 || s.kinds[colSum] != kindNumbers)) {
			return corrupt("kind of column %d", c)
		}
		right, ok := d.readResiduals(c)
		if !ok {
			return corrupt("column %d", c)
		}
		if right && (c == colNaNs || c == colResets || c == colSumLow) {
			return nil // as guessed, which is 0
		}
	}
	d.restore(c)
	if c == colM2 && s.kinds[c] == kindNumbers {
		return d.readOffsets()
	}
	return nil
}

// readResiduals reads the numbers of a column less its guess, and tells whether all of them are right.
func (d *Decoder) readResiduals(c columnID) (right, ok bool) {
	s, b := &d.s, &d.bits
	x := s.numbers[c][:s.k]
	if !b.getFlag() {
		clear(x)
		return true, !b.short
	}
	if d.guesses[c] = guess(b.get(guessBits)); d.guesses[c] < guessFirst {
		return false, false
	}
	like := s.like(c)
	from := c.leads()
	if from > 0 {
		x[0] = unzigzag(b.getLong())
	}
	if len(x) == from {
		return false, !b.short
	}
	s.lows[c], ok = b.numbers(x[from:], like)
	return false, ok
}

// restore adds the guess to what was read of a column.
func (d *Decoder) restore(c columnID) {
	s := &d.s
	x := s.numbers[c][:s.k]
	switch {
	case c == colLast:
		copy(s.rise[:], x)
		return
	case c == colFirst:
		if s.falls {
			d.restoreEdges(false)
		}
		return
	case c == colCorrection && !s.falls:
		numbers := s.kinds[c] == kindNumbers
		if d.restoreEdges(numbers); numbers {
			return
		}
	}
	s.guesses(c, d.guesses[c])
	if c == colMin {
		for i := range x {
			x[i] = s.guessed[i] - x[i]
		}
		return
	}
	for i := range x {
		x[i] += s.guessed[i]
	}
}

// restoreEdges completes first and last values, each of which is predicted from the one before, and on the way corrections.
func (d *Decoder) restoreEdges(corrections bool) {
	s, n := &d.s, &d.s.numbers
	firsts, lasts := n[colFirst][:s.k], n[colLast][:s.k]
	if !d.stored.Has(FieldEdges) {
		if corrections {
			d.restoreCorrections()
		}
		return
	}
	first, last := d.guesses[colFirst], d.guesses[colLast]
	fall := last == guessSecond && s.known()
	before := int64(0)
	for i := range firsts {
		if first != guessThird {
			firsts[i] += before
		}
		if first == guessSecond && i > 0 {
			firsts[i] += s.step(i)
		}
		if corrections {
			n[colCorrection][i] += s.guessCorrection(d.guesses[colCorrection], i)
		}
		if last != guessThird {
			lasts[i] += firsts[i]
		}
		if fall {
			lasts[i] -= n[colCorrection][i]
		}
		before = lasts[i]
	}
}

// restoreCorrections completes corrections alone.
func (d *Decoder) restoreCorrections() {
	x := d.s.numbers[colCorrection][:d.s.k]
	for i := range x {
		x[i] += d.s.guessCorrection(d.guesses[colCorrection], i)
	}
}

// readOffsets completes M2 of which whole parts were read.
func (d *Decoder) readOffsets() error {
	s := &d.s
	var off [BucketsMax]int64
	if d.bits.getFlag() {
		if _, ok := d.bits.numbers(off[:s.k], 0); !ok {
			return corrupt("column %d", colM2)
		}
	}
	for i, x := range s.numbers[colM2][:s.k] {
		s.floats[colM2][i] = fromOrdered(orderedBits(s.wholeToM2(i, x)) + off[i]<<momentDrop)
	}
	s.floated |= 1 << colM2
	return nil
}

// checkTimes refuses counts and times that no samples can have.
func (d *Decoder) checkTimes() error {
	n := &d.s.numbers
	for i := range d.s.k {
		count, first, last := n[colCount][i], n[colFirstMs][i], n[colLastMs][i]
		if count < 1 || first < 0 || last < first || last >= d.s.bucketMs || count > last-first+1 {
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
		if wanted>>col&1 == 0 {
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
