package column

import "halite/storage/index"

// Row locates the samples of one series and hour: they start at Start in part number Part of a batch. N is their number.
// Found is set once the row was found in a cache or read, even if it has no samples.
type Row struct {
	Part, Start, N int32
	Found          bool
	Properties
}

// Rows are the rows of a batch. The rows of a series are adjacent, hours ascending.
type Rows struct {
	All []Row
	// Bases are the index of the first row of each series, and the number of all rows.
	Bases []int
}

// Reset empties all rows, and makes one for each hour of each series.
func (r *Rows) Reset(series int, hoursOf func(series int) []index.HourSpan) {
	r.Bases = Cleared(r.Bases, series+1)
	for i := range series {
		n := 0
		for _, span := range hoursOf(i) {
			n += int(span.Last - span.First + 1)
		}
		r.Bases[i+1] = r.Bases[i] + n
	}
	r.All = Cleared(r.All, r.Bases[series])
}

// Series returns the rows of a series.
func (r *Rows) Series(series int) []Row { return r.All[r.Bases[series]:r.Bases[series+1]] }

// At returns the number of the row of a series and hour, or -1 if the hour is not among the hours of the series.
func (r *Rows) At(series int, hours []index.HourSpan, hour int64) int {
	at := r.Bases[series]
	for _, span := range hours {
		if hour < span.First {
			return -1
		}
		if hour <= span.Last {
			return at + int(hour-span.First)
		}
		at += int(span.Last - span.First + 1)
	}
	return -1
}
