package head

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"halite/keyschema"
	"halite/keyschema/chunk"
)

// row holds the unflushed samples of one kind, series and hour. It has no pointers: blocks are numbers in the stripe's
// slabs. A head has a row for each series, so some fields share a word to save memory. Most appends need only the first
// sixteen bytes, which never lie in two cache lines.
type row struct {
	// hourFlags is the hour, at most keyschema.HourMax, above two bits for the kind and six bits of flags.
	hourFlags uint32
	// counts is the number of all samples, above eight bits for the number of samples in the tail or of unpacked records.
	counts uint32
	tail   uint32 // 0 if there is none
	// latest is the largest offset in the hour above the lowest eight bits of the last sample's tick.
	latest uint32

	// packed is the size of the chunks in bytes above eight bits for the free bytes of the last packed block.
	packed uint32
	// packedLast is the last block of the chain, or 0. Each block links to its predecessor.
	packedLast blockID
	// segment is the oldest segment of the log that holds a sample of the row.
	segment  uint32
	madeTick uint32

	ref uint32
	// next and prev are the neighbors in the list of the series' rows, or 0. In a free row, next is the next free row. In the
	// list, the newest row of an hour and kind comes first.
	next, prev uint32
	// newestAhead is newest minus the hour, at most newestAheadMax.
	newestAhead uint16
	blocks      uint16 // in the chain of packed blocks
}

const rowBytes = int(unsafe.Sizeof(row{}))

// Flags of a row.
const (
	// flagFrozen: the row takes no samples.
	flagFrozen = 1 << iota
	// flagFlushing: a flush holds the row.
	flagFlushing
	// flagUnsorted: a sample was not later than all earlier ones, so readers must sort the row.
	flagUnsorted
	// flagTailLarge: the tail has room for tailSamples instead of tailSmallSamples.
	flagTailLarge
	// flagTailFixedInterval: the samples of the large tail have a fixed interval.
	flagTailFixedInterval
	// flagHasOlder: the series had another row of the hour and kind when this row began.
	flagHasOlder
)

// The kind of a row's samples lies above its flags.
const (
	kindShift = 6
	kindMask  = 3 << kindShift
)

// place is the hour and the kind of a row, at the same bits as in row.hourFlags. Places of later hours are larger.
type place uint32

const placeMask = ^uint32(lowMask) | kindMask

func placeOf(tsMs int64, kind keyschema.SampleKind) place {
	return place(keyschema.HourOf(tsMs)<<lowBits) | place(kind)<<kindShift
}

func (p place) hour() int64 { return int64(p >> lowBits) }

func (p place) kind() keyschema.SampleKind { return keyschema.SampleKind(p & kindMask >> kindShift) }

// A word with two fields has the smaller one in its eight lowest bits.
const (
	lowBits = 8
	lowMask = 1<<lowBits - 1
	// oneSample in counts is one sample in the tail.
	oneSample = 1<<lowBits | 1
)

func (r *row) hour() int64 { return int64(r.hourFlags >> lowBits) }

func (r *row) place() place { return place(r.hourFlags & placeMask) }

func (r *row) kind() keyschema.SampleKind { return r.place().kind() }

// floats reports whether the samples of the row are numbers: floats or start times. Other rows hold records, see records.go.
func (r *row) floats() bool { return r.kind() == keyschema.Floats || r.kind() == keyschema.StartTimes }

// is reports whether the row has one of the flags.
func (r *row) is(flags uint32) bool { return r.hourFlags&flags != 0 }

// open reports whether the row takes samples.
func (r *row) open() bool { return !r.is(flagFrozen) }

func (r *row) samples() int { return int(r.counts >> lowBits) }

func (r *row) tailLen() int { return int(r.counts & lowMask) }

// packedBytes is the size of the chunks in the chain.
func (r *row) packedBytes() int { return int(r.packed >> lowBits) }

// room is the free space of the last packed block in bytes.
func (r *row) room() int { return int(r.packed & lowMask) }

func (r *row) maxOffset() uint32 { return r.latest >> lowBits }

// lastTick is the tick of the last sample. It is exact until 255 ticks after madeTick.
func (r *row) lastTick() uint32 { return r.madeTick + uint32(uint8(r.latest)-uint8(r.madeTick)) }

const newestAheadMax = math.MaxUint16

// newest is an upper bound of the hours of this row and of all later rows in the series' list.
func (r *row) newest() int64 {
	if r.newestAhead == newestAheadMax {
		return keyschema.HourMax
	}
	return r.hour() + int64(r.newestAhead)
}

func (r *row) setNewest(hour int64) { r.newestAhead = uint16(min(hour-r.hour(), newestAheadMax)) }

// add stores one sample. If it cannot pack a full tail, it returns an error and does not store the sample.
func (s *stripe) add(r *row, offset uint32, value float64) error {
	if n := r.tailLen(); r.is(flagTailFixedInterval) && n > 0 && n < tailSamples { // the common case
		t := tail(s.slabs[classTailFixedInterval].block(r.tail))
		if first, interval := t.firstAndInterval(); first+uint32(n)*interval == offset && offset > r.maxOffset() {
			r.latest = offset<<lowBits | r.latest&lowMask
			t.putValue(n, value)
			r.counts += oneSample
			s.samples++
			return nil
		}
	}
	return s.addSlow(r, offset, value)
}

// addSlow implements add for a sample that begins a tail, breaks the interval, or goes into a tail with offsets.
func (s *stripe) addSlow(r *row, offset uint32, value float64) error {
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
	if t.fixedInterval() && n > 0 && t.offset(n) != offset {
		t = s.expandTail(r)
	}
	t.putValue(n, value)
	t.putOffset(n, offset)
	r.counts += oneSample
	s.samples++
	return nil
}

// pack turns the tail into a chunk at the end of the chain. The length of the chunk follows the chunk, see
// appendChunkLength.
func (s *stripe) pack(r *row) error {
	tsMs, values := s.appendTail(r, 0, s.tsMs[:0], s.values[:0])
	if r.is(flagUnsorted) {
		tsMs, values = s.sorter.sortDedup(tsMs, values)
	}
	packed, err := s.encoder.Append(s.packed[:0], keyschema.HourStartMs(r.hour()), tsMs, values)
	if err != nil {
		return fmt.Errorf("pack samples of an open row: %w", err)
	}
	s.packed = appendChunkLength(packed, len(packed))
	s.appendToChain(r, s.packed)
	r.counts &^= lowMask
	return nil
}

// packRow packs the tail of a row that will probably get few more samples, and frees the tail. It keeps the small tail of a
// row without chunks, because its chunk would hardly be smaller.
func (s *stripe) packRow(r *row) error {
	if !r.floats() {
		return s.packRecords(r)
	}
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

// appendToChain appends bytes to the row's chain of packed blocks.
func (s *stripe) appendToChain(r *row, b []byte) {
	r.packed += uint32(len(b)) << lowBits
	for len(b) > 0 {
		if r.room() == 0 {
			s.extendChain(r, len(b))
		}
		block := s.packedBlock(r.packedLast)
		n := copy(block[len(block)-r.room():], b)
		r.packed -= uint32(n) // the free bytes
		b = b[n:]
	}
}

// extendChain adds a block for all or part of sizeBytes. The last block of the chain is full.
func (s *stripe) extendChain(r *row, sizeBytes int) {
	if r.blocks >= fittedBlocksMax {
		sizeBytes = math.MaxInt
	}
	id := s.allocPacked(sizeBytes)
	block := s.packedBlock(id)
	setLink(block, r.packedLast)
	r.packedLast = id
	r.packed += uint32(len(block) - linkBytes)
	r.blocks++
	s.bytes += int64(len(block))
}

// link returns the number of the previous block in a chain, or 0 for the first. Links point backwards because most
// reads need only the last blocks.
func link(block []byte) blockID { return blockID(binary.LittleEndian.Uint32(block)) }

func setLink(block []byte, id blockID) { binary.LittleEndian.PutUint32(block, uint32(id)) }

// appendPacked appends the bytes of the row's chain to dst.
func (s *stripe) appendPacked(dst []byte, r *row) []byte {
	end := len(dst) + r.packedBytes()
	dst = slices.Grow(dst, r.packedBytes())[:end]
	for id, room := r.packedLast, r.room(); id != 0; room = 0 {
		block := s.packedBlock(id)
		content := block[linkBytes : len(block)-room]
		end -= len(content)
		copy(dst[end:], content)
		id = link(block)
	}
	return dst
}

// appendRecent appends the chunks of a sorted row to dst. It neither reads nor appends chunks whose samples are all before
// an offset in the hour.
func (s *stripe) appendRecent(dst []byte, r *row, offset uint32, d *chunk.Decoder) []byte {
	from, startMs := len(dst), keyschema.HourStartMs(r.hour())
	dst = slices.Grow(dst, r.packedBytes())[:from+r.packedBytes()]
	all := dst[from:]
	copied, unknown := len(all), len(all) // start of the copied bytes, and start of the chunks with a known time
	for id, room := r.packedLast, r.room(); id != 0; room = 0 {
		block := s.packedBlock(id)
		content := block[linkBytes : len(block)-room]
		copied -= len(content)
		copy(all[copied:], content)
		id = link(block)
		for unknown > copied {
			last, before, ok := lastChunk(all[copied:unknown])
			if !ok {
				break // an earlier block has the rest of the chunk
			}
			unknown = copied + len(before)
			if info, err := d.Stat(last, startMs); err == nil && info.FirstMs <= startMs+int64(offset) {
				return dst[:from+copy(all, all[unknown:])]
			}
		}
	}
	return dst
}

// memory is the memory of the row in bytes.
func (s *stripe) memory(r *row) int64 {
	return int64(rowBytes + len(s.tail(r)) + r.chainBytes())
}

// chainBytes is the memory of the chain. All its blocks but the last are full.
func (r *row) chainBytes() int { return r.packedBytes() + r.room() + int(r.blocks)*linkBytes }

// release frees the row's blocks.
func (s *stripe) release(r *row) {
	s.bytes -= s.memory(r)
	s.samples -= int64(r.samples())
	s.releaseTail(r)
	s.releaseChain(r)
}

// replaceChain replaces the content of the row's chain.
func (s *stripe) replaceChain(r *row, b []byte) {
	s.bytes -= int64(r.chainBytes())
	s.releaseChain(r)
	r.packed, r.packedLast, r.blocks = 0, 0, 0
	s.appendToChain(r, b)
}

// releaseChain frees the blocks of the row's chain.
func (s *stripe) releaseChain(r *row) {
	for id := r.packedLast; id != 0; {
		before := link(s.packedBlock(id))
		s.releasePacked(id)
		id = before
	}
}

// sorter sorts columns by time and removes duplicates. It is not for concurrent use. A result is valid until the next call.
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

// insertionMovesPerSample is the average number of moves a sample above which a general sort is faster than insertion.
const insertionMovesPerSample = 16

// sortDedup sorts by time. Among samples with one timestamp it keeps the last to arrive. It inserts samples one by one,
// because most late or repeated samples are near their place.
func (o *sorter) sortDedup(tsMs []int64, values []float64) ([]int64, []float64) {
	o.tsMs, o.values = o.tsMs[:0], o.values[:0]
	moves := insertionMovesPerSample * len(tsMs)
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
			return o.sortDedupAny(tsMs, values)
		}
	}
	return o.tsMs, o.values
}

// sortDedupAny is sortDedup for any order.
func (o *sorter) sortDedupAny(tsMs []int64, values []float64) ([]int64, []float64) {
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
