package promql

import (
	"context"
	"slices"

	"halite/keyschema"
	"halite/storage/index"
)

// fromCache takes the rows that are kept decoded, as the first part. What is left to read is wanted afterwards.
//
// The head was read before: a sample that had left it by then was in the table, and known to be so, when the epochs are
// read now.
func (p *piece) fromCache(ctx context.Context) error {
	first, last := p.hoursHull()
	if last >= 0 {
		p.firstDay = first / keyschema.DayHours
		p.epochs = p.cache.watch.epochsOf(
			p.firstDay*keyschema.DayHours, last-last%keyschema.DayHours+keyschema.DayHours-1)
		p.days = p.dayBlocksOf(first, last)
		p.scratch.found = cleared(p.scratch.found, len(p.series)*len(p.days))
		p.found = p.scratch.found
	}
	if !p.deletions.current() {
		// What is kept may lack what was deleted since, which the query has to see.
		p.cache, p.days, p.found = nil, nil, nil
		return nil
	}
	u := rowCacheUser{rowCache: p.cache, epochs: p.epochs}
	defer u.count()
	p.scratch.wanted = cleared(p.scratch.wanted, len(p.series))
	p.wanted = p.scratch.wanted
	s := search{p: p, u: &u, hits: slices.Grow(p.scratch.hits[:0], len(p.slots))}
	if p.lends && p.hours == nil && p.cutoffs(p.window) == nil {
		s.lends = true
		p.columns, p.loan = p.pools.columnsOf(len(p.series)), p.pools.loanOf(p.cache.table)
		if p.merges {
			s.merging = merging{nowHour: keyschema.HourOf(p.opts.Now().UnixMilli()), list: p.scratch.merges[:0], on: true, found: true}
		}
	}
	err := s.run(ctx)
	s.keepMerged()
	return err
}

// run looks for all rows and takes those that are there.
func (s *search) run(ctx context.Context) error {
	p, u := s.p, s.u
	p.cache.table.mu.RLock()
	defer p.cache.table.mu.RUnlock()
	for i := range p.series {
		if i%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if i%searchAhead == 0 {
			s.touch(i, min(i+searchAhead, len(p.series)))
		}
		p.wanted[i] = s.rows(i)
	}
	p.scratch.hits = s.hits
	part := p.buffers.get(s.samples)
	p.parts = append(p.parts, part)
	if err := s.take(part); err != nil {
		return err
	}
	samples := part.len() + p.loan.samples()
	p.figures.samples.Add(int64(samples))
	p.figures.rowsCached.Add(int64(u.found))
	p.metrics.samples.Add(float64(samples))
	return nil
}

// keepMissing remembers of rows that were looked for that they are not there.
func (p *piece) keepMissing() {
	u := rowCacheUser{rowCache: p.cache, epochs: p.epochs}
	for i := range p.wanted {
		for _, span := range p.wanted[i] {
			for hour := span.First; hour <= span.Last; hour++ {
				if !p.keptTogether(hour) && !p.slots[p.slotOf(i, hour)].known {
					u.keep(&p.series[i], hour, columns{}, traitsOf(columns{}))
				}
			}
		}
	}
}

// keep remembers a row.
func (u *rowCacheUser) keep(s *index.Series, hour int64, row columns, t traits) {
	startMs := keyschema.HourStartMs(hour)
	if n := len(row.tsMs); n == 0 || row.tsMs[0] >= startMs && row.tsMs[n-1] < startMs+keyschema.HourMs {
		u.put(s, hour, 1, u.epochs.of(hour), row, t)
	}
}

// wantedOf are the hours of a series that have to be read from the table.
func (p *piece) wantedOf(series int) []index.HourSpan {
	if p.wanted == nil {
		return p.hoursOf(series)
	}
	return p.wanted[series]
}
