package rowcache

import (
	"halite/keyschema"
)

// Blocks are days and quarters of days. Once a query has read all rows of a block, they become one entry, so that a later
// query needs one look-up.

const (
	quarterHours = 6
	dayQuarters  = keyschema.DayHours / quarterHours
	// Requests for fewer hours than blockHoursFew look the rows up first, because a block would be copied as a whole.
	blockHoursFew = 3

	quarterFound uint8 = 1                // shifted by the number of the quarter
	dayFound           = 1 << dayQuarters // of a series and day
)

// block is a day or a quarter of a day.
type block struct {
	firstHour, hours int64
	version          uint64 // the latest of its hours
	// usable: the block is over, and its rows have not been written since the series were selected. So the selection knows all
	// hours of the block.
	usable bool
	// whole: the request reads all hours of the block.
	whole bool
}

func (b *block) lastHour() int64 { return b.firstHour + b.hours - 1 }

// cacheable reports whether the rows of the block may become one entry.
func (b *block) cacheable() bool { return b.usable && b.whole }

// oneHour returns the block of one hour.
func (l *Lookup) oneHour(hour int64) block {
	return block{firstHour: hour, hours: 1, version: l.versions.at(hour)}
}

// dayBlocks are a day and its quarters.
type dayBlocks struct {
	day      block
	quarters [dayQuarters]block
}

// dayBlocksOf lists the days of the hours from first to last.
func (l *Lookup) dayBlocksOf(first, last int64) []dayBlocks {
	nowHour := keyschema.HourOf(l.NowMs)
	newBlock := func(firstHour, hours int64) block {
		b := block{firstHour: firstHour, hours: hours}
		for hour := firstHour; hour < firstHour+hours; hour++ {
			b.version = max(b.version, l.versions.at(hour))
		}
		b.usable = b.version <= l.Version && b.lastHour() < nowHour
		b.whole = !l.Sparse && keyschema.HourStartMs(firstHour) >= l.Range.MinMs &&
			keyschema.HourStartMs(firstHour+hours) <= l.Range.MaxMs+1
		return b
	}
	var out []dayBlocks
	for day := first / keyschema.DayHours; day <= last/keyschema.DayHours; day++ {
		d := dayBlocks{day: newBlock(day*keyschema.DayHours, keyschema.DayHours)}
		for i := range d.quarters {
			d.quarters[i] = newBlock(d.day.firstHour+int64(i)*quarterHours, quarterHours)
		}
		out = append(out, d)
	}
	return out
}

// cachedInBlock reports whether the row of an hour becomes a part of a block, so that it needs no entry.
func (l *Lookup) cachedInBlock(hour int64) bool {
	d := &l.days[hour/keyschema.DayHours-l.firstDay]
	return d.day.cacheable() || d.quarters[hour%keyschema.DayHours/quarterHours].cacheable()
}
