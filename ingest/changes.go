package ingest

import (
	"slices"

	"halite/ingest/head"
	"halite/storage/keyviz/ranges"
)

const (
	minuteMs       = int64(60_000)
	minutesPerHour = 60
	// changeBits is the number of consecutive minutes that a request collects in one word.
	changeBits = 64
	// changedMinutesMax is the number of changed minutes above which whole hours count as changed. Otherwise a backfill would
	// fill the change clock.
	changedMinutesMax = 64
	// changedHoursMax is the number of changed hours above which everything counts as changed.
	changedHoursMax = 1 << 16
)

// hourBucket is the bucket of a whole hour in the change clock. Minutes are numbered from 0, hours from −1 downwards.
func hourBucket(minute int64) int64 { return ^(minute / minutesPerHour) }

// bucketTimes returns the first and the last time of a bucket.
func bucketTimes(bucket int64) (fromMs, toMs int64) {
	if bucket < 0 {
		return ^bucket * minutesPerHour * minuteMs, (^bucket+1)*minutesPerHour*minuteMs - 1
	}
	return bucket * minuteMs, (bucket+1)*minuteMs - 1
}

// ChangedTimes notes that samples with mintMs ≤ time ≤ maxtMs have changed. Call it when readers can see the change and
// before the change is acknowledged.
func (w *Writer) ChangedTimes(mintMs, maxtMs int64) {
	first, last := mintMs/minuteMs, maxtMs/minuteMs
	var buckets []int64
	switch hours := last/minutesPerHour - first/minutesPerHour; {
	case last-first < changedMinutesMax:
		for minute := first; minute <= last; minute++ {
			buckets = append(buckets, minute)
		}
	case hours < changedHoursMax:
		for hour := first / minutesPerHour; hour <= last/minutesPerHour; hour++ {
			buckets = append(buckets, hourBucket(hour*minutesPerHour))
		}
	}
	w.changes.Change(buckets) // too many hours: everything counts as changed
}

// NoteChanges notes that samples of the request have changed. Readers may see them already.
func (r *Request) NoteChanges(samples []head.Sample) {
	if len(samples) == 0 {
		return
	}
	r.buckets = appendBuckets(r.buckets[:0], samples)
	r.w.changes.Change(r.buckets)
	for _, bucket := range r.buckets {
		fromMs, _ := bucketTimes(bucket)
		r.result.NewestMs = max(r.result.NewestMs, fromMs)
	}
}

// CountHeat counts stored samples of the request by row key. The caller holds LockSeries.
func (r *Request) CountHeat(samples []head.Sample) {
	b := r.w.heat.Begin(len(samples))
	if b == nil {
		return
	}
	ranges.Add(b, samples)
	r.w.heat.End(b)
}

// appendBuckets appends the buckets of samples to dst. There must be at least one sample.
func appendBuckets(dst []int64, samples []head.Sample) []int64 {
	// Most requests stay within one hour. For those this loop costs about one subtraction per sample.
	first := max(0, samples[0].TsMs/minuteMs-changeBits/2)
	startMs, bits := first*minuteMs, uint64(0)
	lastMs := startMs - minuteMs // start of the last minute found
	for i := range samples {
		if uint64(samples[i].TsMs-lastMs) < uint64(minuteMs) {
			continue
		}
		if at := uint64(samples[i].TsMs-startMs) / uint64(minuteMs); at < changeBits {
			bits |= 1 << at
			lastMs = startMs + int64(at)*minuteMs
			continue
		}
		if minute := samples[i].TsMs / minuteMs; len(dst) == 0 || dst[len(dst)-1] != minute {
			dst = append(dst, minute)
		}
	}
	// A backfill may repeat the same hours for each series.
	slices.Sort(dst)
	dst = slices.Compact(dst)
	whole := len(dst) > changedMinutesMax
	for ; bits != 0; first, bits = first+1, bits>>1 {
		if bits&1 != 0 {
			dst = append(dst, first)
		}
	}
	if whole {
		for n := range dst {
			dst[n] = hourBucket(dst[n])
		}
		slices.Sort(dst)
		dst = slices.Compact(dst)
	}
	return dst
}

// Generation counts the changes of samples since the start.
func (w *Writer) Generation() uint64 { return w.changes.Latest() }

// ChangedSince reports whether samples with mintMs ≤ time ≤ maxtMs may have been added or replaced since a generation. It also
// returns the range of times that changed. The range covers every acknowledged change. It may be wider: it holds whole minutes of
// all series, or whole hours if many minutes have changed.
func (w *Writer) ChangedSince(generation uint64, mintMs, maxtMs int64) (fromMs, toMs int64, changed bool) {
	complete := w.changes.Since(generation, func(bucket int64) {
		from, to := bucketTimes(bucket)
		if from, to = max(mintMs, from), min(maxtMs, to); from > to {
			return
		}
		if !changed {
			fromMs, toMs, changed = from, to, true
			return
		}
		fromMs, toMs = min(fromMs, from), max(toMs, to)
	})
	if !complete {
		return mintMs, maxtMs, true
	}
	return fromMs, toMs, changed
}
