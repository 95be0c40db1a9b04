package promql

import "sort"

// columns is a pair of slices of one length, times ascending.
type columns struct {
	tsMs   []int64
	values []float64
}

// from is the part with times at or after tsMs; before is the rest.
func (c columns) cut(tsMs int64) (before, from columns) {
	n := sort.Search(len(c.tsMs), func(i int) bool { return c.tsMs[i] >= tsMs })
	return columns{c.tsMs[:n], c.values[:n]}, columns{c.tsMs[n:], c.values[n:]}
}

// clip is the part of columns that lies in the window.
func (w window) clip(c columns) columns {
	if n := len(c.tsMs); n > 0 && c.tsMs[0] < w.mintMs {
		_, c = c.cut(w.mintMs)
	}
	if n := len(c.tsMs); n > 0 && c.tsMs[n-1] > w.maxtMs {
		c, _ = c.cut(w.maxtMs + 1)
	}
	return c
}

// join makes the batch from what was read of a piece. Its samples stay charged until the batch is released.
func (p *piece) join() (*Batch, error) {
	if p.columns == nil {
		p.columns = p.pools.columnsOf(len(p.series))
	}
	batch := &Batch{First: p.first, Columns: p.columns, ToMs: p.window.maxtMs, reader: p.reader, loan: p.loan}
	batch.refs.Store(1)
	var apart []int // series whose samples do not lie side by side
	unfinished, total := p.loan.left(), 0
	for i := range p.series {
		c := &batch.Columns[i]
		c.Series = &p.series[i]
		c.Labels, c.Group = c.Series.Labels, c.Series.Group
		if c.Len() > 0 {
			if len(unfinished) == 0 || unfinished[0] != i {
				continue // it is lent
			}
			unfinished = unfinished[1:]
		}
		head := p.headOf(i)
		rows, traits, ok := p.adjacent(i)
		switch {
		case ok && len(head.tsMs) == 0:
			c.add(rows, traits)
		default:
			apart = append(apart, i)
			total += len(head.tsMs) + p.rowSamples(i)
		}
	}
	if len(apart) > 0 {
		// For a moment the samples are in memory twice.
		if err := p.budget.Take(int64(total) * sampleBytes); err != nil {
			return nil, err
		}
		out := p.buffers.get(total)
		for _, i := range apart {
			start := out.len()
			p.joinSeries(out, i, p.headOf(i))
			all := columns{out.tsMs[start:len(out.tsMs):len(out.tsMs)], out.values[start:len(out.values):len(out.values)]}
			batch.Columns[i].add(all, traitsOf(all))
		}
		p.budget.Release(int64(total-out.len()) * sampleBytes)
		batch.data = append(batch.data, out)
	}
	if p.cache != nil {
		p.keepAllBlocks(batch)
	}
	p.hideOld(batch)
	if len(apart) < len(p.series) || p.loan.samples() > 0 {
		batch.data = append(batch.data, p.parts...)
		p.parts = nil
	}
	p.columns, p.loan = nil, nil
	return batch, nil
}

// adjacent is the rows of a series as one column, if they lie side by side in the order of time.
func (p *piece) adjacent(series int) (c columns, t traits, ok bool) {
	at, t := slot{}, traits{stepMs: 1, plain: true, rising: true}
	for _, s := range p.slots[p.bases[series]:p.bases[series+1]] {
		switch {
		case s.n == 0:
		case at.n == 0:
			at, t = s, s.traits
		case s.part != at.part || s.start != at.start+at.n:
			return columns{}, traits{}, false
		default:
			part := p.parts[s.part]
			t = t.joined(s.traits, int(at.n), columns{part.tsMs[at.start : s.start+s.n], part.values[at.start : s.start+s.n]})
			at.n += s.n
		}
	}
	if at.n == 0 {
		return columns{}, t, true
	}
	part, end := p.parts[at.part], at.start+at.n
	return columns{part.tsMs[at.start:end:end], part.values[at.start:end:end]}, t, true
}

func (p *piece) rowSamples(series int) int {
	n := 0
	for _, s := range p.slots[p.bases[series]:p.bases[series+1]] {
		n += int(s.n)
	}
	return n
}

// headOf is what the head had of a series, within a piece.
func (p *piece) headOf(series int) columns {
	if p.headEnds == nil {
		return columns{}
	}
	start := 0
	if series > 0 {
		start = p.headEnds[series-1]
	}
	end := p.headEnds[series]
	return p.window.clip(columns{p.head.tsMs[start:end], p.head.values[start:end]})
}

// joinSeries appends the rows of a series in order of time, with the samples of the head between and over them.
func (p *piece) joinSeries(out *buffer, series int, head columns) {
	for _, s := range p.slots[p.bases[series]:p.bases[series+1]] {
		if s.n == 0 {
			continue
		}
		part := p.parts[s.part]
		row := columns{part.tsMs[s.start : s.start+s.n], part.values[s.start : s.start+s.n]}
		if len(head.tsMs) > 0 && head.tsMs[0] <= row.tsMs[s.n-1] {
			head = overlay(out, row, head)
			continue
		}
		out.append(row.tsMs, row.values)
	}
	out.append(head.tsMs, head.values)
}

// overlay appends row and all of head up to the row's last time, head winning on equal times; it returns the rest of
// head.
func overlay(out *buffer, row, head columns) columns {
	before, head := head.cut(row.tsMs[0])
	out.append(before.tsMs, before.values)
	over, rest := head.cut(row.tsMs[len(row.tsMs)-1] + 1)
	h := 0
	for i, ts := range row.tsMs {
		for h < len(over.tsMs) && over.tsMs[h] < ts {
			out.append(over.tsMs[h:h+1], over.values[h:h+1])
			h++
		}
		if h < len(over.tsMs) && over.tsMs[h] == ts {
			continue // the head's sample follows in the next turn, or after the loop
		}
		out.append(row.tsMs[i:i+1], row.values[i:i+1])
	}
	out.append(over.tsMs[h:], over.values[h:])
	return rest
}
