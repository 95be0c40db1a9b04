package ranges

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"halite/storage/keyviz/heat"
)

// Series caches the range of each series, so a sample needs no look-up of its key.
type Series struct {
	set    *Set
	key    func(ref uint32, tsMs int64) string
	chunks atomic.Pointer[[]*seriesChunk]
	mu     sync.Mutex // held while chunks grow
	// Found counts look-ups of keys.
	Found  atomic.Int64
	every  atomic.Uint32 // one of this many consecutive samples counts for all of them; a power of two, or 0 for 1
	pooled sync.Pool
}

const (
	// exactSamples is the number of samples a minute up to which each one counts. At twice this number, one of two counts, and
	// so on. Each of 512 equal ranges still has over a hundred counted samples a minute. So its deviation is about 8 %.
	exactSamples = 1 << 16
	// everyMax is the highest number of samples for which one counts, so that small ranges stay visible.
	everyMax = 8
)

// SetLoad sets the number of samples a minute, which decides how many of the next samples count.
func (s *Series) SetLoad(samplesPerMinute float64) {
	every := uint32(1)
	for every < everyMax && samplesPerMinute >= 2*exactSamples*float64(every) {
		every *= 2
	}
	s.every.Store(every)
}

const (
	seriesShift     = 12
	seriesChunkSize = 1 << seriesShift
)

type seriesChunk [seriesChunkSize]atomic.Uint32

// NewSeries returns a Series. key returns the row key of a series at a time, or "" if the series is unknown. Numbers of series
// are small: the memory grows with the largest one.
func NewSeries(set *Set, key func(ref uint32, tsMs int64) string) *Series {
	s := &Series{set: set, key: key}
	s.chunks.Store(new([]*seriesChunk))
	s.pooled.New = func() any { return &Batch{series: s, stripe: set.nextStripe.Add(1)} }
	return s
}

// SizeBytes is the memory of all chunks.
func (s *Series) SizeBytes() int64 {
	n := int64(0)
	for _, c := range *s.chunks.Load() {
		if c != nil {
			n += seriesChunkSize * 4
		}
	}
	return n
}

// slot returns the place of the id of a series' range.
func (s *Series) slot(ref uint32) *atomic.Uint32 {
	chunks := *s.chunks.Load()
	n := int(ref >> seriesShift)
	if n >= len(chunks) || chunks[n] == nil {
		chunks = s.grow(n)
	}
	return &chunks[n][ref&(seriesChunkSize-1)]
}

func (s *Series) grow(n int) []*seriesChunk {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.chunks.Load()
	chunks := make([]*seriesChunk, max(n+1, len(old)))
	copy(chunks, old)
	if chunks[n] == nil {
		chunks[n] = new(seriesChunk)
	}
	s.chunks.Store(&chunks)
	return chunks
}

// Batch counts the samples of one request. It is not safe for concurrent use.
type Batch struct {
	series   *Series
	snapshot *Snapshot
	stripe   uint32
	nowMs    int64
	every    uint32 // see Series
	start    uint32 // which of the first samples counts, at random, so that all samples are equally likely
	startMs  int64  // start of the time of the counts
	spanMs   int64  // length of that time
	counts   []uint32
	touched  []uint16
	samples  []sample
	past     int64 // samples at least a minute old
	wait     int32 // number of samples until the next offer
	random   uint64
}

// noStart is a long time before every timestamp.
const noStart = math.MinInt64 / 2

// offerEvery is the mean number of samples between two offers of a key.
const offerEvery = 64

// Begin returns a Batch for a number of samples, or nil if they do not count. The caller calls End once. Samples later than nowMs
// count in its minute.
func (s *Series) Begin(nowMs int64, samples int) *Batch {
	every := max(1, s.every.Load())
	start := uint32(0)
	if every > 1 {
		start = rand.Uint32N(every)
		if start >= uint32(min(samples, everyMax)) {
			return nil
		}
	}
	b := s.pooled.Get().(*Batch)
	b.snapshot, b.nowMs, b.every, b.start = s.set.enter(), nowMs, every, start
	b.startMs, b.spanMs = noStart, MinuteMs
	if n := b.snapshot.Len(); cap(b.counts) < n {
		b.counts = make([]uint32, n)
	}
	b.counts = b.counts[:b.snapshot.Len()]
	return b
}

// number is a sample of a series, in the memory layout of the package that stores samples.
type number = struct {
	Ref   uint32
	TsMs  int64
	Value float64
}

// turnBy changes which of consecutive samples counts, so that no pattern of the samples coincides with the choice. It is odd.
const turnBy = 5

// Add counts all samples of the batch. The caller omits samples with number 0.
func Add[S ~number](b *Batch, samples []S) {
	chunks, places, base := *b.series.chunks.Load(), b.snapshot.places, b.snapshot.base
	counts, wait := b.counts, b.wait
	startMs, spanMs := b.startMs, uint64(b.spanMs)
	every, start := b.every, b.start
	for first := 0; first+int(start) < len(samples); first += int(every) {
		s := number(samples[first+int(start)])
		start = (start + turnBy) & (every - 1)
		if uint64(s.TsMs-startMs) >= spanMs {
			b.setTime(s.TsMs)
			startMs, spanMs = b.startMs, uint64(b.spanMs)
		}
		at := -1
		if n := int(s.Ref >> seriesShift); n < len(chunks) && chunks[n] != nil {
			if id := chunks[n][s.Ref&(seriesChunkSize-1)].Load() - base; id < uint32(len(places)) {
				at = int(places[id]) - 1
			}
		}
		if at < 0 {
			if at = b.find(s.Ref, s.TsMs); at < 0 {
				continue
			}
			chunks = *b.series.chunks.Load()
		}
		if counts[at] == 0 {
			b.touched = append(b.touched, uint16(at))
		}
		counts[at] += every
		if wait--; wait <= 0 {
			wait = b.offer(at, s.Ref)
		}
	}
	b.wait = wait
}

// find looks up the key of a series and offers it. It returns −1 if the series is unknown.
func (b *Batch) find(ref uint32, tsMs int64) int {
	key := b.series.key(ref, tsMs)
	if key == "" {
		return -1
	}
	b.series.Found.Add(1)
	at := b.snapshot.Find([]byte(key))
	b.series.slot(ref).Store(b.snapshot.ids[at])
	b.samples = append(b.samples, sample{uint16(at), ref, key})
	return at
}

// offer offers the series of a sample. It returns a random number of samples until the next offer.
func (b *Batch) offer(at int, ref uint32) int32 {
	b.random++
	b.samples = append(b.samples, sample{at: uint16(at), ref: ref})
	return int32(mix(b.random^uint64(b.stripe)<<32)%(2*offerEvery)) + 1
}

// setTime begins new counts if a sample belongs to the column of another time.
func (b *Batch) setTime(tsMs int64) {
	startMs, spanMs := columnOf(b.series.set.opts.Levels, min(tsMs, b.nowMs), b.nowMs)
	if startMs != b.startMs {
		b.flush()
	}
	b.startMs, b.spanMs = startMs, spanMs
}

// flush adds the counts to the snapshot.
func (b *Batch) flush() {
	if len(b.touched)+len(b.samples) == 0 {
		return
	}
	t := &b.snapshot.stripes[b.stripe%uint32(len(b.snapshot.stripes))]
	t.mu.Lock()
	if len(b.touched) > 0 {
		cells := b.snapshot.list(t, b.startMs, heat.WriteCells)
		for _, at := range b.touched {
			cells[at] += uint64(b.counts[at])
			if b.nowMs-b.startMs >= 2*MinuteMs {
				b.past += int64(b.counts[at])
			}
		}
	}
	for _, x := range b.samples {
		t.offer(x)
	}
	t.mu.Unlock()
	for _, at := range b.touched {
		b.counts[at] = 0
	}
	clear(b.samples)
	b.touched, b.samples = b.touched[:0], b.samples[:0]
}

// End adds the counts. The batch must not be used afterwards. It returns the number of samples that were at least a minute
// old.
func (b *Batch) End() (past int64) {
	b.flush()
	b.snapshot.leave()
	past = b.past
	b.snapshot, b.past = nil, 0
	b.series.pooled.Put(b)
	return past
}

// Work is the load of the rows that one operation on the table has touched. It is not safe for concurrent use.
type Work struct {
	set      *Set
	snapshot *Snapshot
	at       int
	run      heat.Counts
	runs     []workRun
	samples  []sample
	rows     uint
}

type workRun struct {
	at     int
	counts heat.Counts
}

// Begin returns the work of an operation. The caller calls End once.
func (s *Set) Begin() *Work { return &Work{set: s, snapshot: s.enter(), at: -1} }

// Row adds the counts of a row. Ascending keys are fastest.
func (w *Work) Row(key []byte, counts *heat.Counts) {
	w.seek(key)
	w.run.Add(counts, 1)
	// Every power of two offers a key first, so that short operations offer keys as well as long ones.
	if w.rows++; bits.OnesCount(w.rows) == 1 || w.rows%offerEvery == 0 {
		w.samples = append(w.samples, sample{at: uint16(w.at), key: string(key)})
	}
}

func (w *Work) seek(key []byte) {
	if w.at >= 0 && w.snapshot.Contains(w.at, key) {
		return
	}
	w.endRun()
	w.at = w.snapshot.Find(key)
}

func (w *Work) endRun() {
	if w.at >= 0 {
		w.runs = append(w.runs, workRun{w.at, w.run})
		w.run = heat.Counts{}
	}
}

// End adds the work to the minute of nowMs. The time of a read, in nanoseconds, spreads over the ranges by their rows. An
// error counts for the range of the last row, or of key if there was no row.
func (w *Work) End(nowMs int64, key []byte, readNanos int64, failed bool) {
	if w.at < 0 {
		w.at = w.snapshot.Find(key)
	}
	if failed {
		w.run[heat.Errors]++
	}
	w.endRun()
	defer w.snapshot.leave()
	startMs := nowMs - nowMs%MinuteMs
	t := &w.snapshot.stripes[w.set.nextStripe.Add(1)%uint32(len(w.snapshot.stripes))]
	t.mu.Lock()
	defer t.mu.Unlock()
	rows, left := 0.0, uint64(max(readNanos, 0))
	for i := range w.runs {
		rows += w.runs[i].counts[heat.ReadRows]
	}
	for i := range w.runs {
		r := &w.runs[i]
		for m, n := range r.counts {
			if n != 0 {
				w.snapshot.add(t, startMs, heat.Metric(m), r.at, uint64(n))
			}
		}
		if readNanos <= 0 {
			continue
		}
		share := left
		if i+1 < len(w.runs) {
			share = min(left, uint64(float64(readNanos)*r.counts[heat.ReadRows]/max(rows, 1)))
		}
		left -= share
		if share > 0 {
			w.snapshot.add(t, startMs, heat.ReadNanos, r.at, share)
		}
		if r.counts[heat.ReadRows] > 0 || len(w.runs) == 1 {
			w.snapshot.add(t, startMs, heat.ReadNanosMax, r.at, uint64(readNanos))
		}
	}
	for _, x := range w.samples {
		t.offer(x)
	}
}
