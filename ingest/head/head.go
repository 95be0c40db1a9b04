package head

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"unsafe"

	"halite/keyschema"
)

// Sample is one value of the series with the number Ref. TsMs lies between 1970 and the end of keyschema.HourMax.
type Sample struct {
	Ref   uint32
	TsMs  int64
	Value float64
}

// Options of a Head.
type Options struct {
	// Stripes is the number of parts with a lock of their own, a power of two.
	Stripes int
	// RowBytesMax is the packed size in bytes above which a row is full. A full row takes no more samples and is due for a
	// flush. RowBytesMax is at most RowBytesUpperBound.
	RowBytesMax int
	// ExemplarsMax is the number of exemplars that the head keeps for a series and hour, the newest ones; 0 means
	// ExemplarsDefault. A row may hold a quarter more for a while.
	ExemplarsMax int
}

// ExemplarsDefault is the default of Options.ExemplarsMax.
const ExemplarsDefault = 60

// RowBytesUpperBound is the largest RowBytesMax. The fields of a row can hold it and the number of samples that fit into it.
const RowBytesUpperBound = 1 << 20

// OpenedRow names a row that an Append has begun.
type OpenedRow struct {
	Ref  uint32
	Hour int64
}

const (
	slotShift     = 9
	slotChunkSize = 1 << slotShift
)

// slot is the state of one series.
type slot struct {
	// row is the first of the series' rows. The stripe's lock guards it.
	row uint32
	// log is the number of the series in the log, or 0. It is set before other goroutines know the ref.
	log uint32
}

type slotChunk [slotChunkSize]slot

// Head keeps unflushed samples; see the package comment.
type Head struct {
	opts    Options
	stripes []stripe
	slots   atomic.Pointer[[]*slotChunk]
	chunks  atomic.Int64 // number of existing slotChunks
	tick    atomic.Uint32
	bytes   atomic.Int64
	rows    atomic.Int64
	samples atomic.Int64
	sealed  atomic.Int64 // full rows that are not yet freed
	counts  rowCounts
}

// New returns an empty head.
func New(opts Options) (*Head, error) {
	if opts.Stripes < 1 || opts.Stripes&(opts.Stripes-1) != 0 {
		return nil, fmt.Errorf("head: the number of stripes %d is not a power of two", opts.Stripes)
	}
	if opts.RowBytesMax < 1 || opts.RowBytesMax > RowBytesUpperBound {
		return nil, fmt.Errorf("head: RowBytesMax %d is outside 1…%d", opts.RowBytesMax, RowBytesUpperBound)
	}
	opts.ExemplarsMax = cmp.Or(opts.ExemplarsMax, ExemplarsDefault)
	if opts.ExemplarsMax < 1 || opts.ExemplarsMax > ExemplarsUpperBound {
		return nil, fmt.Errorf("head: ExemplarsMax %d is outside 1…%d", opts.ExemplarsMax, ExemplarsUpperBound)
	}
	h := &Head{opts: opts, stripes: make([]stripe, opts.Stripes)}
	for i := range h.stripes {
		h.stripes[i].slabs, h.stripes[i].counts = newSlabs(), &h.counts
	}
	h.slots.Store(new([]*slotChunk))
	return h, nil
}

// Stripes returns the number of stripes.
func (h *Head) Stripes() int { return len(h.stripes) }

// Stripe returns the stripe of a series. Series with adjacent numbers share a stripe, so that a request touches few.
func (h *Head) Stripe(ref uint32) int { return int(ref>>slotShift) & (len(h.stripes) - 1) }

// Register makes room for a series and stores its number in the log. Call it before any other use of the ref. The caller
// serializes Register and Unregister.
func (h *Head) Register(ref, log uint32) {
	chunks := *h.slots.Load()
	at := int(ref >> slotShift)
	if at >= len(chunks) || chunks[at] == nil {
		var grown []*slotChunk
		if at < len(chunks) {
			grown = slices.Clone(chunks)
		} else { // readers stay within the length that they loaded
			grown = append(chunks, make([]*slotChunk, at+1-len(chunks))...)
		}
		grown[at] = new(slotChunk)
		h.slots.Store(&grown)
		h.chunks.Add(1)
		chunks = grown
	}
	chunks[at][ref&(slotChunkSize-1)].log = log
}

// Unregister removes series without rows. Ascending refs are fastest. No append may run.
func (h *Head) Unregister(refs []uint32) {
	var touched []int
	for _, ref := range refs {
		if at := h.slot(ref); at != nil {
			at.log = 0
			if n := int(ref >> slotShift); len(touched) == 0 || touched[len(touched)-1] != n {
				touched = append(touched, n)
			}
		}
	}
	var chunks []*slotChunk
	for _, n := range touched {
		if *(*h.slots.Load())[n] != (slotChunk{}) {
			continue
		}
		if chunks == nil {
			chunks = slices.Clone(*h.slots.Load())
		}
		if chunks[n] != nil {
			chunks[n] = nil
			h.chunks.Add(-1)
		}
	}
	if chunks != nil {
		h.slots.Store(&chunks)
	}
}

func (h *Head) slot(ref uint32) *slot {
	chunks := *h.slots.Load()
	at := int(ref >> slotShift)
	if at >= len(chunks) || chunks[at] == nil {
		return nil
	}
	return &chunks[at][ref&(slotChunkSize-1)]
}

// LogRef returns the number of a series in the log, 0 if it is not registered.
func (h *Head) LogRef(ref uint32) uint32 {
	if at := h.slot(ref); at != nil {
		return at.log
	}
	return 0
}

// EachSeries visits all registered series by ascending ref. Neither Register nor Unregister may run.
func (h *Head) EachSeries(visit func(ref, log uint32)) {
	for i, chunk := range *h.slots.Load() {
		if chunk == nil {
			continue
		}
		for j := range chunk {
			if log := chunk[j].log; log != 0 {
				visit(uint32(i<<slotShift|j), log)
			}
		}
	}
}

// HasRows reports whether a series has rows. Neither Append nor Free may run.
func (h *Head) HasRows(ref uint32) bool {
	at := h.slot(ref)
	return at != nil && at.row != 0
}

// SetTick sets the logical clock that stamps rows with the time of their appends. The caller chooses its unit.
func (h *Head) SetTick(tick uint32) { h.tick.Store(tick) }

// LockStripe locks a stripe for a writer. The writer logs its samples and appends them under one lock, so that log and head
// have them in the same order.
func (h *Head) LockStripe(stripe int) { h.stripes[stripe].mu.Lock() }

// UnlockStripe unlocks a stripe.
func (h *Head) UnlockStripe(stripe int) { h.stripes[stripe].mu.Unlock() }

// Append stores floats or start times of one stripe in their order. The value of a start time is the start timestamp, in
// milliseconds since 1970, of the sample with the same series and time. The caller has locked the stripe and written the
// samples to a log segment. All refs must be registered. Append adds the rows that it begins to opened. The caller must mark
// their series active before it acknowledges the samples. After an error some samples may be missing, although they are in
// the log.
func (h *Head) Append(
	stripe int, kind keyschema.SampleKind, samples []Sample, segment uint64, opened []OpenedRow,
) ([]OpenedRow, error) {
	if segment > math.MaxUint32 {
		return opened, segmentFault(segment)
	}
	s := &h.stripes[stripe]
	defer h.addTotals(s, s.bytes, s.count, s.samples)
	tick, usable := h.tick.Load(), uint32(kind)<<kindShift
	chunks := *h.slots.Load()
	for i := range samples {
		if i%prefetchSamples == 0 {
			s.prefetch(chunks, samples[i:min(len(samples), i+prefetchSamples)])
		}
		sample := &samples[i]
		at := &chunks[sample.Ref>>slotShift][sample.Ref&(slotChunkSize-1)]
		var r *row
		if at.row != 0 {
			r = s.row(at.row)
		}
		if r == nil || r.hourFlags&(flagFrozen|kindMask) != usable ||
			uint64(sample.TsMs-keyschema.HourStartMs(r.hour())) >= keyschema.HourMs {
			var made bool
			if r, made = s.openRow(at, sample.Ref, placeOf(sample.TsMs, kind), segment, tick); made {
				opened = append(opened, OpenedRow{Ref: sample.Ref, Hour: r.hour()})
				if err := h.packPreviousRow(s, r); err != nil {
					return opened, err
				}
			}
		}
		offset := uint32(sample.TsMs - keyschema.HourStartMs(r.hour()))
		if err := s.add(r, offset, sample.Value); err != nil {
			return opened, err
		}
		r.latest = r.latest&^lowMask | tick&lowMask
		if r.tailLen() == 1 { // otherwise nothing was packed
			h.sealFull(r)
		}
	}
	return opened, nil
}

func segmentFault(segment uint64) error {
	return fmt.Errorf("head: log segment %d has more than 32 bits", segment)
}

// addTotals adds the change of a stripe's totals to the totals of the head. The arguments are the stripe's earlier totals.
func (h *Head) addTotals(s *stripe, bytes, rows, samples int64) {
	h.bytes.Add(s.bytes - bytes)
	h.rows.Add(s.count - rows)
	h.samples.Add(s.samples - samples)
}

// packPreviousRow packs the row of the same kind before r if r begins a later hour. Rows of other kinds may lie between them.
func (h *Head) packPreviousRow(s *stripe, r *row) error {
	n := r.next
	for range keyschema.SampleKinds {
		if n == 0 {
			return nil
		}
		left := s.row(n)
		if left.kind() != r.kind() {
			n = left.next
			continue
		}
		if left.hour() >= r.hour() || !left.open() {
			return nil
		}
		err := s.packRow(left)
		h.sealFull(left)
		return err
	}
	return nil
}

// sealFull freezes a row that has grown too large.
func (h *Head) sealFull(r *row) {
	if r.packedBytes() > h.opts.RowBytesMax {
		r.hourFlags |= flagFrozen
		h.sealed.Add(1)
	}
}

// Bytes is the memory of all rows. Slabs may reserve more.
func (h *Head) Bytes() int64 { return h.bytes.Load() }

// SeriesBytes is the memory of registered series without their rows.
func (h *Head) SeriesBytes() int64 {
	return h.chunks.Load()*int64(unsafe.Sizeof(slotChunk{})) + int64(len(*h.slots.Load()))*int64(unsafe.Sizeof(uintptr(0)))
}

// HasKind reports whether there may be rows of a kind. It considers every append that has returned, and takes no lock. The
// head does not count rows of floats, so HasKind returns true for floats.
func (h *Head) HasKind(kind keyschema.SampleKind) bool { return h.counts.has(kind) }

// Rows is the number of rows.
func (h *Head) Rows() int { return int(h.rows.Load()) }

// Samples is the number of stored samples of all kinds; rewritten samples may count twice.
func (h *Head) Samples() int { return int(h.samples.Load()) }

// Sealed is the number of rows that are full and wait for a flush.
func (h *Head) Sealed() int { return int(h.sealed.Load()) }

// Bounds returns the first and last hour of all rows; ok is false if there are no rows. It visits each row.
func (h *Head) Bounds() (first, last int64, ok bool) {
	first, last = math.MaxInt64, -1
	h.forEach(func(r *row) {
		first, last = min(first, r.hour()), max(last, r.hour())
	})
	return first, last, last >= 0
}

// OldestSegment returns the oldest segment of the log that a row needs; ok is false if there are no rows. It considers every
// Append that began before the call.
func (h *Head) OldestSegment() (segment uint64, ok bool) {
	segment = math.MaxUint64
	h.forEach(func(r *row) {
		segment = min(segment, uint64(r.segment))
	})
	return segment, segment != math.MaxUint64
}

// forEach visits all rows, stripe by stripe under the read lock.
func (h *Head) forEach(visit func(*row)) {
	for i := range h.stripes {
		s := &h.stripes[i]
		s.mu.RLock()
		for n := uint32(1); n <= s.made; n++ {
			if r := s.row(n); r.ref != 0 {
				visit(r)
			}
		}
		s.mu.RUnlock()
	}
}
