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
// slabs.
type row struct {
	ref uint32
	// next and prev are the series' rows behind and before this one, next of a free row the next free one; 0 is none.
	next, prev uint32
	hour       int32
	// newest is at least the hour of this row and of all rows behind it in the series' list.
	newest int32
	// seq orders the rows of one series and hour by creation.
	seq uint32
	// segment is the first log segment that holds a sample of the row.
	segment uint32
	samples uint32
	// maxOffset is the largest offset in the hour so far.
	maxOffset uint32
	tail      uint32 // 0 if there is none
	// packedFirst and packedLast are the ends of the chain of packed blocks, 0 if there is none.
	packedFirst, packedLast blockID
	packedBytes             uint32
	madeTick                uint32
	lastTick                uint16 // the lower half
	blocks                  uint16
	// room is what is left of the last packed block.
	room    uint16
	tailLen uint8
	flags   uint8
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
	// again rows began while the head had another row of their series and hour.
	flagAgain
)

// sealed rows have room for samples no more.
func (r *row) open() bool { return r.flags&flagFrozen == 0 }

// lastUsed is the tick of the last sample, as far as it can be told from madeTick on.
func (r *row) lastUsed() uint32 { return r.madeTick + uint32(r.lastTick-uint16(r.madeTick)) }

func (r *row) tailPlaces() int {
	switch {
	case r.tail == 0:
		return 0
	case r.flags&flagTailLarge != 0:
		return tailSamples
	}
	return tailSmallSamples
}

// tailBlock returns the row's tail: offsets first, then values.
func (s *stripe) tailBlock(r *row) (offsets, values []byte) {
	var b []byte
	switch places := r.tailPlaces(); places {
	case 0:
		return nil, nil
	case tailSamples:
		b = s.slabs[classTail].block(r.tail)
		return b[:tailSamples*4], b[tailSamples*4:]
	default:
		b = s.slabs[classTailSmall].block(r.tail)
		return b[:tailSmallSamples*4], b[tailSmallSamples*4:]
	}
}

// add stores one sample. An error means that a full tail could not be packed; the sample is not stored then.
func (s *stripe) add(r *row, offset uint32, value float64) error {
	offsets, values := s.tailBlock(r)
	n := int(r.tailLen)
	if offset <= r.maxOffset && r.samples > 0 {
		if n > 0 && binary.LittleEndian.Uint32(offsets[4*(n-1):]) == offset {
			binary.LittleEndian.PutUint64(values[8*(n-1):], math.Float64bits(value))
			return nil
		}
		r.flags |= flagUnsorted
	} else {
		r.maxOffset = offset
	}
	if n == r.tailPlaces() {
		if n == tailSamples {
			if err := s.pack(r); err != nil {
				return err
			}
			n = 0
		} else {
			s.growTail(r)
			offsets, values = s.tailBlock(r)
		}
	}
	binary.LittleEndian.PutUint32(offsets[4*n:], offset)
	binary.LittleEndian.PutUint64(values[8*n:], math.Float64bits(value))
	r.tailLen = uint8(n + 1)
	r.samples++
	s.samples++
	return nil
}

// growTail gives a row a tail, or a larger one.
func (s *stripe) growTail(r *row) {
	if r.tail == 0 {
		r.tail = s.slabs[classTailSmall].alloc()
		s.bytes += tailSmallSamples * tailSampleBytes
		return
	}
	offsets, values := s.tailBlock(r)
	small := r.tail
	r.tail = s.slabs[classTail].alloc()
	r.flags |= flagTailLarge
	toOffsets, toValues := s.tailBlock(r)
	copy(toOffsets, offsets)
	copy(toValues, values)
	s.slabs[classTailSmall].release(small)
	s.bytes += (tailSamples - tailSmallSamples) * tailSampleBytes
}

// tailColumns copies the tail into columns of the stripe's scratch, in the order of arrival.
func (s *stripe) tailColumns(r *row) ([]int64, []float64) {
	offsets, values := s.tailBlock(r)
	startMs := keyschema.HourStartMs(int64(r.hour))
	for i := range int(r.tailLen) {
		s.tsMs[i] = startMs + int64(binary.LittleEndian.Uint32(offsets[4*i:]))
		s.values[i] = math.Float64frombits(binary.LittleEndian.Uint64(values[8*i:]))
	}
	return s.tsMs[:r.tailLen], s.values[:r.tailLen]
}

// pack turns the tail into a run at the end of the packed chain, preceded by its length.
func (s *stripe) pack(r *row) error {
	tsMs, values := s.tailColumns(r)
	if r.flags&flagUnsorted != 0 {
		tsMs, values = s.sorter.fold(tsMs, values)
	}
	const lengthBytesMax = binary.MaxVarintLen32
	packed, err := s.encoder.Append(
		append(s.packed[:0], make([]byte, lengthBytesMax)...), keyschema.HourStartMs(int64(r.hour)), tsMs, values)
	if err != nil {
		return fmt.Errorf("pack samples of an open row: %w", err)
	}
	s.packed = packed
	var length [lengthBytesMax]byte
	n := binary.PutUvarint(length[:], uint64(len(packed)-lengthBytesMax))
	packed = packed[lengthBytesMax-n:]
	copy(packed, length[:n])
	s.chain(r, packed)
	r.tailLen = 0
	return nil
}

// settle packs the tail of a row that is not expected to take many more samples, and gives it back. A small tail of a row
// without runs stays: a run of its own would hardly be smaller.
func (s *stripe) settle(r *row) error {
	if r.tail == 0 || r.packedFirst == 0 && r.flags&flagTailLarge == 0 {
		return nil
	}
	if r.tailLen > 0 {
		if err := s.pack(r); err != nil {
			return err
		}
	}
	s.bytes -= int64(r.tailPlaces() * tailSampleBytes)
	s.releaseTail(r)
	return nil
}

// releaseTail gives the tail back, whatever is in it.
func (s *stripe) releaseTail(r *row) {
	switch r.tailPlaces() {
	case 0:
	case tailSamples:
		s.slabs[classTail].release(r.tail)
	default:
		s.slabs[classTailSmall].release(r.tail)
	}
	r.tail = 0
	r.flags &^= flagTailLarge
}

// chain appends bytes to the row's packed chain.
func (s *stripe) chain(r *row, b []byte) {
	r.packedBytes += uint32(len(b))
	for len(b) > 0 {
		if r.room == 0 {
			s.lengthen(r, len(b))
		}
		block := s.packedBlock(r.packedLast)
		n := copy(block[len(block)-int(r.room):], b)
		r.room -= uint16(n)
		b = b[n:]
	}
}

// lengthen adds a block for so many bytes, or a part of them, to the chain.
func (s *stripe) lengthen(r *row, sizeBytes int) {
	if r.blocks >= packedFitted {
		sizeBytes = math.MaxInt
	}
	id := s.allocPacked(sizeBytes)
	block := s.packedBlock(id)
	binary.LittleEndian.PutUint32(block, 0)
	if r.packedLast == 0 {
		r.packedFirst = id
	} else {
		binary.LittleEndian.PutUint32(s.packedBlock(r.packedLast), uint32(id))
	}
	r.packedLast = id
	r.room = uint16(len(block) - linkBytes)
	r.blocks++
	s.bytes += int64(len(block))
}

// appendPacked appends the bytes of the packed chain to dst.
func (s *stripe) appendPacked(dst []byte, r *row) []byte {
	for id := r.packedFirst; id != 0; {
		block := s.packedBlock(id)
		id = blockID(binary.LittleEndian.Uint32(block))
		if id == 0 {
			dst = append(dst, block[linkBytes:len(block)-int(r.room)]...)
		} else {
			dst = append(dst, block[linkBytes:]...)
		}
	}
	return dst
}

// memory is what the row occupies.
func (s *stripe) memory(r *row) int64 {
	packed := int(r.packedBytes) + int(r.room) + int(r.blocks)*linkBytes // blocks but the last are full
	return int64(rowBytes + r.tailPlaces()*tailSampleBytes + packed)
}

// release gives the row's blocks back.
func (s *stripe) release(r *row) {
	s.bytes -= s.memory(r)
	s.samples -= int64(r.samples)
	s.releaseTail(r)
	for id := r.packedFirst; id != 0; {
		next := blockID(binary.LittleEndian.Uint32(s.packedBlock(id)))
		s.releasePacked(id)
		id = next
	}
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
