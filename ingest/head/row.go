package head

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"halite/keyschema"
)

// row holds the unflushed samples of one series in one hour. It has no pointers: blocks are numbers in the stripe's
// slabs. A head has one for each series, so some of its fields share a word; what most appends need are its first sixteen
// bytes, which never lie in two cache lines.
type row struct {
	// hourFlags is the hour, which keyschema.HourMax bounds, above eight bits of flags.
	hourFlags uint32
	// counts is the number of samples, those in the tail among them, above eight bits that count those in the tail.
	counts uint32
	tail   uint32 // 0 if there is none
	// latest is the largest offset in the hour so far above the lowest eight bits of the last sample's tick.
	latest uint32

	// packed is the size of the chunks in bytes above eight bits with what is left of the last packed block.
	packed uint32
	// packedLast is the last block of the chain, 0 if there is none. Its link leads to the first.
	packedLast blockID
	// segment is the first log segment that holds a sample of the row.
	segment  uint32
	madeTick uint32

	ref uint32
	// next and prev are the series' rows behind and before this one, next of a free row the next free one; 0 is none. Rows
	// of one hour stand in the list from the newest to the oldest.
	next, prev uint32
	// ahead is what newest is above the hour, or aheadMost if that is less.
	ahead  uint16
	blocks uint16 // in the chain of packed blocks
}

const rowBytes = int(unsafe.Sizeof(row{}))

// Flags of a row.
const (
	// frozen rows take no samples.
	flagFrozen = 1 << iota
	// flushing rows are in the hands of a flush.
	flagFlushing
	// unsorted rows must be sorted when read: a sample came with a timestamp not above all before.
	flagUnsorted
	// tailLarge tails have tailSamples places instead of tailSmallSamples.
	flagTailLarge
	// tailEven tails, which are large, hold samples at equal distances.
	flagTailEven
	// again rows began while the head had another row of their series and hour.
	flagAgain
)

// What shares a word with something else has eight bits and lies below it.
const (
	lowBits = 8
	lowMask = 1<<lowBits - 1
	// oneSample is added to counts for a sample in the tail.
	oneSample = 1<<lowBits | 1
)

func (r *row) hour() int64 { return int64(r.hourFlags >> lowBits) }

// is reports whether the row has one of the flags.
func (r *row) is(flags uint32) bool { return r.hourFlags&flags != 0 }

// open rows have room for samples and are in nobody's hands.
func (r *row) open() bool { return !r.is(flagFrozen) }

func (r *row) samples() int { return int(r.counts >> lowBits) }

func (r *row) tailLen() int { return int(r.counts & lowMask) }

// packedBytes is the size of the runs in the chain.
func (r *row) packedBytes() int { return int(r.packed >> lowBits) }

// room is what is left of the last packed block.
func (r *row) room() int { return int(r.packed & lowMask) }

func (r *row) maxOffset() uint32 { return r.latest >> lowBits }

// lastTick is the tick of the last sample, as far as it can be told from madeTick on.
func (r *row) lastTick() uint32 { return r.madeTick + uint32(uint8(r.latest)-uint8(r.madeTick)) }

const aheadMost = math.MaxUint16

// newest is at least the hour of this row and of all rows behind it in the series' list.
func (r *row) newest() int64 {
	if r.ahead == aheadMost {
		return keyschema.HourMax
	}
	return r.hour() + int64(r.ahead)
}

func (r *row) setNewest(hour int64) { r.ahead = uint16(min(hour-r.hour(), aheadMost)) }

// add stores one sample. An error means that a full tail could not be packed; the sample is not stored then.
func (s *stripe) add(r *row, offset uint32, value float64) error {
	if n := r.tailLen(); r.is(flagTailEven) && n > 0 && n < tailSamples { // as most are
		t := tail(s.slabs[classTailEven].block(r.tail))
		if first, distance := t.steps(); first+uint32(n)*distance == offset && offset > r.maxOffset() {
			r.latest = offset<<lowBits | r.latest&lowMask
			t.putValue(n, value)
			r.counts += oneSample
			s.samples++
			return nil
		}
	}
	return s.addAny(r, offset, value)
}

// addAny is add for a sample that begins a tail, is out of step, or comes into a tail with offsets.
func (s *stripe) addAny(r *row, offset uint32, value float64) error {
	t, n := s.tail(r), r.tailLen()
	if offset <= r.maxOffset() && r.counts != 0 {
		if n > 0 && t.offset(n-1) == offset {
			t.putValue(n-1, value)
			return nil
		}
		r.hourFlags |= flagUnsorted
	} else {
		r.latest = offset<<lowBits | r.latest&lowMask
	}
	if n == t.places() {
		if n == tailSamples {
			if err := s.pack(r); err != nil {
				return err
			}
			n = 0
		} else {
			t = s.growTail(r)
		}
	}
	if t.even() && n > 0 && t.offset(n) != offset {
		t = s.spreadTail(r)
	}
	t.putValue(n, value)
	t.putOffset(n, offset)
	r.counts += oneSample
	s.samples++
	return nil
}

// pack turns the tail into a run at the end of the packed chain, preceded by its length.
func (s *stripe) pack(r *row) error {
	tsMs, values := s.appendTail(r, s.tsMs[:0], s.values[:0])
	if r.is(flagUnsorted) {
		tsMs, values = s.sorter.fold(tsMs, values)
	}
	const lengthBytesMax = binary.MaxVarintLen32
	packed, err := s.encoder.Append(
		append(s.packed[:0], make([]byte, lengthBytesMax)...), keyschema.HourStartMs(r.hour()), tsMs, values)
	if err != nil {
		return fmt.Errorf("pack samples of an open row: %w", err)
	}
	s.packed = packed
	var length [lengthBytesMax]byte
	n := binary.PutUvarint(length[:], uint64(len(packed)-lengthBytesMax))
	packed = packed[lengthBytesMax-n:]
	copy(packed, length[:n])
	s.chain(r, packed)
	r.counts &^= lowMask
	return nil
}

// settle packs the tail of a row that is not expected to take many more samples, and gives it back. A small tail of a row
// without runs stays: a run of its own would hardly be smaller.
func (s *stripe) settle(r *row) error {
	if r.tail == 0 || r.packedLast == 0 && !r.is(flagTailLarge) {
		return nil
	}
	if r.tailLen() > 0 {
		if err := s.pack(r); err != nil {
			return err
		}
	}
	s.bytes -= int64(len(s.tail(r)))
	s.releaseTail(r)
	return nil
}

// chain appends bytes to the row's packed chain.
func (s *stripe) chain(r *row, b []byte) {
	r.packed += uint32(len(b)) << lowBits
	for len(b) > 0 {
		if r.room() == 0 {
			s.lengthen(r, len(b))
		}
		block := s.packedBlock(r.packedLast)
		n := copy(block[len(block)-r.room():], b)
		r.packed -= uint32(n) // of the room
		b = b[n:]
	}
}

// lengthen adds a block for so many bytes, or a part of them, to the chain, whose last block is full.
func (s *stripe) lengthen(r *row, sizeBytes int) {
	if r.blocks >= packedFitted {
		sizeBytes = math.MaxInt
	}
	id := s.allocPacked(sizeBytes)
	block, first := s.packedBlock(id), id
	if r.packedLast != 0 {
		last := s.packedBlock(r.packedLast)
		first = link(last)
		setLink(last, id)
	}
	setLink(block, first)
	r.packedLast = id
	r.packed += uint32(len(block) - linkBytes)
	r.blocks++
	s.bytes += int64(len(block))
}

// link returns the block behind one in a chain, behind the last the first.
func link(block []byte) blockID { return blockID(binary.LittleEndian.Uint32(block)) }

func setLink(block []byte, id blockID) { binary.LittleEndian.PutUint32(block, uint32(id)) }

// appendPacked appends the bytes of the packed chain to dst.
func (s *stripe) appendPacked(dst []byte, r *row) []byte {
	if r.packedLast == 0 {
		return dst
	}
	for id := link(s.packedBlock(r.packedLast)); id != r.packedLast; {
		block := s.packedBlock(id)
		id = link(block)
		dst = append(dst, block[linkBytes:]...)
	}
	block := s.packedBlock(r.packedLast)
	return append(dst, block[linkBytes:len(block)-r.room()]...)
}

// memory is what the row occupies.
func (s *stripe) memory(r *row) int64 {
	packed := r.packedBytes() + r.room() + int(r.blocks)*linkBytes // blocks but the last are full
	return int64(rowBytes + len(s.tail(r)) + packed)
}

// release gives the row's blocks back.
func (s *stripe) release(r *row) {
	s.bytes -= s.memory(r)
	s.samples -= int64(r.samples())
	s.releaseTail(r)
	if r.packedLast == 0 {
		return
	}
	for id := link(s.packedBlock(r.packedLast)); id != r.packedLast; {
		next := link(s.packedBlock(id))
		s.releasePacked(id)
		id = next
	}
	s.releasePacked(r.packedLast)
}

// sorter folds columns in the order of arrival into ascending ones. Not concurrent; its result is valid until the next
// fold.
type sorter struct {
	order  []arrival
	tsMs   []int64
	values []float64
}

type arrival struct {
	tsMs  int64
	value float64
	nth   int
}

// foldMovesPerSample is the number of places that samples may be moved by, on average, before sorting is cheaper.
const foldMovesPerSample = 16

// fold sorts by time; of samples with one timestamp the last to arrive stays. Samples that are not far from their place,
// like most that come late or are written again, are moved there one by one.
func (o *sorter) fold(tsMs []int64, values []float64) ([]int64, []float64) {
	o.tsMs, o.values = o.tsMs[:0], o.values[:0]
	moves := foldMovesPerSample * len(tsMs)
	for i, t := range tsMs {
		n := len(o.tsMs)
		at := n
		for at > 0 && o.tsMs[at-1] >= t {
			at--
		}
		if at < n && o.tsMs[at] == t {
			o.values[at] = values[i]
		} else {
			o.tsMs, o.values = slices.Insert(o.tsMs, at, t), slices.Insert(o.values, at, values[i])
		}
		if moves -= n - at; moves < 0 {
			return o.sort(tsMs, values)
		}
	}
	return o.tsMs, o.values
}

// sort is fold for any order.
func (o *sorter) sort(tsMs []int64, values []float64) ([]int64, []float64) {
	o.order = o.order[:0]
	for i, t := range tsMs {
		o.order = append(o.order, arrival{t, values[i], i})
	}
	slices.SortFunc(o.order, func(a, b arrival) int {
		if c := cmp.Compare(a.tsMs, b.tsMs); c != 0 {
			return c
		}
		return cmp.Compare(a.nth, b.nth)
	})
	o.tsMs, o.values = o.tsMs[:0], o.values[:0]
	for i, a := range o.order {
		if i+1 < len(o.order) && o.order[i+1].tsMs == a.tsMs {
			continue
		}
		o.tsMs, o.values = append(o.tsMs, a.tsMs), append(o.values, a.value)
	}
	return o.tsMs, o.values
}
