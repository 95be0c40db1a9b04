package head

import (
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
	// Stripes is the number of independently locked parts, a power of two.
	Stripes int
	// RowBytesMax is the packed size in bytes at which a row is closed for samples and reported as due, at most
	// RowBytesMost.
	RowBytesMax int
}

// RowBytesMost bounds Options.RowBytesMax: sizes of so much, and the samples that they hold, fit into the fields of a row.
const RowBytesMost = 1 << 20

// OpenedRow names a row that an Append has begun.
type OpenedRow struct {
	Ref  uint32
	Hour int64
}

const (
	slotShift     = 9
	slotChunkSize = 1 << slotShift
)

// slot is where a series' state hangs.
type slot struct {
	// row is the first of the series' rows, guarded by the stripe's lock.
	row uint32
	// log is the number of the series in the log, set before the ref is given to anyone, 0 if there is none.
	log uint32
}

type slotChunk [slotChunkSize]slot

// Head keeps unflushed samples. See the package comment.
type Head struct {
	opts    Options
	stripes []stripe
	slots   atomic.Pointer[[]*slotChunk]
	chunks  atomic.Int64 // of slots, that are there
	tick    atomic.Uint32
	bytes   atomic.Int64
	rows    atomic.Int64
	samples atomic.Int64
	sealed  atomic.Int64 // rows closed for their size and not yet freed
	hours   hourCounts
}

// New returns an empty head.
func New(opts Options) (*Head, error) {
	if opts.Stripes < 1 || opts.Stripes&(opts.Stripes-1) != 0 {
		return nil, fmt.Errorf("head: %d stripes, need a power of two", opts.Stripes)
	}
	if opts.RowBytesMax < 1 || opts.RowBytesMax > RowBytesMost {
		return nil, fmt.Errorf("head: RowBytesMax %d is not in 1…%d", opts.RowBytesMax, RowBytesMost)
	}
	h := &Head{opts: opts, stripes: make([]stripe, opts.Stripes)}
	for i := range h.stripes {
		h.stripes[i].slabs, h.stripes[i].counts = newSlabs(), &h.hours
	}
	h.slots.Store(new([]*slotChunk))
	return h, nil
}

// Stripes returns the number of stripes.
func (h *Head) Stripes() int { return len(h.stripes) }

// Stripe returns the stripe of a series. Neighbours by number share one, so that a request touches few.
func (h *Head) Stripe(ref uint32) int { return int(ref>>slotShift) & (len(h.stripes) - 1) }

// Register makes room for a series and notes its number in the log. It must happen before the ref is used elsewhere;
// Register and Forget calls must be serialised by the caller.
func (h *Head) Register(ref, log uint32) {
	chunks := *h.slots.Load()
	at := int(ref >> slotShift)
	if at >= len(chunks) || chunks[at] == nil {
		var grown []*slotChunk
		if at < len(chunks) {
			grown = slices.Clone(chunks)
		} else { // readers do not look behind the length that they know
			grown = append(chunks, make([]*slotChunk, at+1-len(chunks))...)
		}
		grown[at] = new(slotChunk)
		h.slots.Store(&grown)
		h.chunks.Add(1)
		chunks = grown
	}
	chunks[at][ref&(slotChunkSize-1)].log = log
}

// Forget drops series that have no rows, fastest if the refs are ascending. No append may be under way.
func (h *Head) Forget(refs []uint32) {
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

// EachSeries visits all registered series, in the order of their refs. No Register and no Forget may be under way.
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

// Busy reports whether a series has rows. No append and no Free may be under way.
func (h *Head) Busy(ref uint32) bool {
	at := h.slot(ref)
	return at != nil && at.row != 0
}

// SetTick sets the clock that rows measure their idleness with. Its unit is the caller's.
func (h *Head) SetTick(tick uint32) { h.tick.Store(tick) }

// LockStripe locks a stripe for a writer. The writer logs its samples and appends them under one lock, so that log and head
// have them in the same order.
func (h *Head) LockStripe(stripe int) { h.stripes[stripe].mu.Lock() }

// UnlockStripe unlocks a stripe.
func (h *Head) UnlockStripe(stripe int) { h.stripes[stripe].mu.Unlock() }

// Append stores samples of one stripe in their order. The caller has locked the stripe and written the samples to a segment of
// the log. All refs must be registered. Append adds the rows that it has begun to opened; the caller must mark their series
// active before it acknowledges the samples. After an error some samples may be missing, although they are in the log.
func (h *Head) Append(stripe int, samples []Sample, segment uint64, opened []OpenedRow) ([]OpenedRow, error) {
	if segment > math.MaxUint32 {
		return opened, fmt.Errorf("head: log segment %d has more than 32 bits", segment)
	}
	s := &h.stripes[stripe]
	bytes, rows, count := s.bytes, s.count, s.samples
	opened, err := h.appendLocked(s, samples, segment, opened)
	h.bytes.Add(s.bytes - bytes)
	h.rows.Add(s.count - rows)
	h.samples.Add(s.samples - count)
	return opened, err
}

func (h *Head) appendLocked(s *stripe, samples []Sample, segment uint64, opened []OpenedRow) ([]OpenedRow, error) {
	tick := h.tick.Load()
	chunks := *h.slots.Load()
	for i := range samples {
		if i%warmSamples == 0 {
			s.warm(chunks, samples[i:min(len(samples), i+warmSamples)])
		}
		sample := &samples[i]
		at := &chunks[sample.Ref>>slotShift][sample.Ref&(slotChunkSize-1)]
		var r *row
		if at.row != 0 {
			r = s.row(at.row)
		}
		if r == nil || !r.open() || uint64(sample.TsMs-keyschema.HourStartMs(r.hour())) >= keyschema.HourMs {
			hour := keyschema.HourOf(sample.TsMs)
			var made bool
			if r, made = s.openRow(at, sample.Ref, hour, segment, tick); made {
				opened = append(opened, OpenedRow{Ref: sample.Ref, Hour: hour})
				if err := h.settleBefore(s, r); err != nil {
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

// settleBefore settles the row that a series leaves behind by beginning that of a later hour.
func (h *Head) settleBefore(s *stripe, r *row) error {
	if r.next == 0 {
		return nil
	}
	left := s.row(r.next)
	if left.hour() >= r.hour() || !left.open() {
		return nil
	}
	err := s.settle(left)
	h.sealFull(left)
	return err
}

// sealFull closes a row that takes samples if it has grown too large.
func (h *Head) sealFull(r *row) {
	if r.packedBytes() > h.opts.RowBytesMax {
		r.hourFlags |= flagFrozen
		h.sealed.Add(1)
	}
}

// Bytes is the memory of all rows. Slabs may hold more for rows to come.
func (h *Head) Bytes() int64 { return h.bytes.Load() }

// SeriesBytes is the memory of registered series, beside that of their rows.
func (h *Head) SeriesBytes() int64 {
	return h.chunks.Load()*int64(unsafe.Sizeof(slotChunk{})) + int64(len(*h.slots.Load()))*int64(unsafe.Sizeof(uintptr(0)))
}

// Rows is the number of rows, Samples that of the samples stored in them.
func (h *Head) Rows() int { return int(h.rows.Load()) }

// Samples counts what is stored; rewritten samples may count twice.
func (h *Head) Samples() int { return int(h.samples.Load()) }

// Sealed is the number of rows that were closed for their size and wait to be flushed.
func (h *Head) Sealed() int { return int(h.sealed.Load()) }

// Bounds returns the first and last hour of all rows; ok is false if there are none. It looks at each row.
func (h *Head) Bounds() (first, last int64, ok bool) {
	first, last = math.MaxInt64, -1
	h.each(func(r *row) {
		first, last = min(first, r.hour()), max(last, r.hour())
	})
	return first, last, last >= 0
}

// OldestSegment returns the smallest log segment that a row needs; ok is false if there are no rows. Samples whose
// Append began before the call are considered.
func (h *Head) OldestSegment() (segment uint64, ok bool) {
	segment = math.MaxUint64
	h.each(func(r *row) {
		segment = min(segment, uint64(r.segment))
	})
	return segment, segment != math.MaxUint64
}

// each visits all rows, stripe by stripe under its read lock.
func (h *Head) each(visit func(*row)) {
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
