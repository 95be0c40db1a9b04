package promql

import (
	"context"
	"math"

	"halite/keyschema"
	"halite/storage/index"
)

// fromCache takes the rows that are kept decoded, as the first part. What is left to read is wanted afterwards.
//
// The head was read before: a sample that had left it by then was in the table, and known to be so, when the epochs are
// read now.
func (p *piece) fromCache(ctx context.Context) error {
	first, last := int64(math.MaxInt64), int64(-1)
	for i := range p.series {
		if hours := p.hoursOf(i); len(hours) > 0 {
			first, last = min(first, hours[0].First), max(last, hours[len(hours)-1].Last)
		}
	}
	p.epochs = p.cache.watch.epochsOf(first, last)
	u := rowCacheUser{rowCache: p.cache, epochs: p.epochs}
	defer u.count()
	part := p.buffers.get(0)
	p.parts = append(p.parts, part)
	p.wanted = make([][]index.HourSpan, len(p.series))
	for i := range p.series {
		if i%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		before := part.len()
		p.wanted[i] = p.cachedRows(&u, i, part)
		if err := p.charge(part.len() - before); err != nil {
			part.truncate(before) // is not charged
			return err
		}
	}
	p.figures.samples.Add(int64(part.len()))
	p.figures.rowsCached.Add(int64(u.found))
	p.metrics.samples.Add(float64(part.len()))
	return nil
}

// cachedRows takes the rows of a series that are kept; it returns the hours of the others.
func (p *piece) cachedRows(u *rowCacheUser, series int, part *buffer) (wanted []index.HourSpan) {
	n := u.setSeries(&p.series[series])
	at := p.bases[series]
	for _, span := range p.hoursOf(series) {
		for hour := span.First; hour <= span.Last; hour++ {
			start := part.len()
			if u.get(n, hour, p.window, part) {
				p.slots[at] = slot{part: 0, start: int32(start), n: int32(part.len() - start), known: true}
			} else if k := len(wanted); k > 0 && wanted[k-1].Last == hour-1 {
				wanted[k-1].Last = hour
			} else {
				wanted = append(wanted, index.HourSpan{First: hour, Last: hour})
			}
			at++
		}
	}
	return wanted
}

// keepMissing remembers of rows that were looked for that they are not there.
func (p *piece) keepMissing() {
	u := rowCacheUser{rowCache: p.cache, epochs: p.epochs}
	for i := range p.wanted {
		for _, span := range p.wanted[i] {
			for hour := span.First; hour <= span.Last; hour++ {
				if !p.slots[p.slotOf(i, hour)].known {
					u.put(&p.series[i], hour, columns{})
				}
			}
		}
	}
}

// keep remembers a row.
func (u *rowCacheUser) keep(s *index.Series, hour int64, row columns) {
	startMs := keyschema.HourStartMs(hour)
	if n := len(row.tsMs); n == 0 || row.tsMs[0] >= startMs && row.tsMs[n-1] < startMs+keyschema.HourMs {
		u.put(s, hour, row)
	}
}

// wantedOf are the hours of a series that have to be read from the table.
func (p *piece) wantedOf(series int) []index.HourSpan {
	if p.wanted == nil {
		return p.hoursOf(series)
	}
	return p.wanted[series]
}
