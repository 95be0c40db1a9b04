package read

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/query/column"
	"halite/query/hours"
	"halite/storage/index"
	"halite/storage/index/presence"
	"halite/storage/principal"
)

// aliases is an Index with aliases of metrics and labels.
type aliases interface {
	// Stored returns all stored names of a metric for the principal.
	Stored(ctx context.Context, metric string) []string
	// Aliased reports whether aliases apply to a selector in a window.
	Aliased(ctx context.Context, mintMs, maxtMs int64, matchers ...*labels.Matcher) bool
	// Names returns all names of a stored metric.
	Names(stored string) []string
	// Generation changes with each change of aliases.
	Generation() uint64
	// ExplainAliases returns the selectors of stored series that replace a selector, nil if no alias applies to it.
	ExplainAliases(ctx context.Context, mintMs, maxtMs int64, matchers ...*labels.Matcher) []string
}

// Stored returns all stored names of a metric for the principal, by tenants and aliases.
func (r *Reader) Stored(ctx context.Context, metric string) []string {
	if a, ok := r.opts.Index.(aliases); ok {
		return a.Stored(ctx, metric)
	}
	return principal.From(ctx).Stored(metric)
}

// Stored is Stored of the Reader.
func (s *Session) Stored(ctx context.Context, metric string) []string {
	return s.reader.Stored(ctx, metric)
}

// NamesGeneration changes whenever series get other names.
func (r *Reader) NamesGeneration() uint64 {
	if a, ok := r.opts.Index.(aliases); ok {
		return a.Generation()
	}
	return 0
}

// namesOf returns all names of a stored metric.
func (r *Reader) namesOf(stored string) []string {
	if a, ok := r.opts.Index.(aliases); ok {
		return a.Names(stored)
	}
	return []string{stored}
}

func (r *Reader) aliased(ctx context.Context, w column.TimeRange, matchers []*labels.Matcher) bool {
	a, ok := r.opts.Index.(aliases)
	return ok && a.Aliased(ctx, w.MinMs, w.MaxMs, matchers...)
}

// ExplainAliases returns the selectors of stored series that replace a selector in a range, nil if no alias applies to it.
func (r *Reader) ExplainAliases(ctx context.Context, within column.TimeRange, matchers ...*labels.Matcher) []string {
	a, ok := r.opts.Index.(aliases)
	window, _ := r.clip(within, r.opts.Retention)
	if !ok || window.Empty() {
		return nil
	}
	return a.ExplainAliases(ctx, window.MinMs, window.MaxMs, matchers...)
}

// relabelled reports whether a series, or a part, has different labels in different hours.
func relabelled(s index.Series) bool {
	if parts := s.Parts(); parts != nil {
		return slices.ContainsFunc(parts, relabelled)
	}
	return s.Alias != nil && (s.Alias.FirstHour > 0 || s.Alias.LastHour < keyschema.HourMax)
}

// withParts returns a copy of a series with parts. keep returns the remaining hours of each part.
func withParts(one index.Series, keep func(part index.Series) []index.HourSpan) index.Series {
	kept := *one.Alias
	kept.Parts, one.Hours = slices.Clone(kept.Parts), nil
	for i := range kept.Parts {
		kept.Parts[i].Hours = keep(kept.Parts[i])
		one.Hours = append(one.Hours, kept.Parts[i].Hours...)
	}
	one.Hours, one.Alias = presence.Normalize(one.Hours), &kept
	return one
}

// expand replaces each series with parts by its parts. owners is nil if no series has parts.
func expand(series []index.Series) (parts []index.Series, owners []int) {
	if !slices.ContainsFunc(series, func(s index.Series) bool { return s.Parts() != nil }) {
		return series, nil
	}
	for i, s := range series {
		if s.Parts() == nil {
			parts, owners = append(parts, s), append(owners, i)
			continue
		}
		for _, part := range s.Parts() {
			part.Hours = hours.Intersect(part.Hours, s.Hours)
			parts, owners = append(parts, part), append(owners, i)
		}
	}
	return parts, owners
}

// Owners maps each series of the batch to its series in the selection, counted from the batch's first series. It is nil
// if no series has parts.
func (b *BatchReader) Owners() []int { return b.owners }

// foldParts joins the columns of the parts of each series. At equal times a later part wins.
func (t *timeSlice) foldParts(b *Batch) error {
	owners := t.batch.owners
	if owners == nil {
		return nil
	}
	out := 0
	for from := 0; from < len(owners); out++ {
		to := from + 1
		for to < len(owners) && owners[to] == owners[from] {
			to++
		}
		c := b.Columns[from]
		if to-from > 1 {
			var err error
			if c, err = t.fold(b, b.Columns[from:to]); err != nil {
				return err
			}
			c.Series = &t.batch.sel.series[t.batch.first+owners[from]]
			c.Labels, c.Group = c.Series.Labels, c.Series.Group
		}
		b.Columns[out], from = c, to
	}
	clear(b.Columns[out:])
	b.Columns = b.Columns[:out]
	return nil
}

// fold joins the columns of parts.
func (t *timeSlice) fold(b *Batch, parts []column.Column) (c column.Column, err error) {
	session := t.batch.sel.session
	points, some := column.Points{}, 0 // number of parts with samples
	for i := range parts {
		n := parts[i].Len()
		for k := range parts[i].Segments {
			n += parts[i].Segments[k].Len()
		}
		if parts[i].Records != nil {
			if c.Records == nil {
				c.Records = &column.Records{}
			}
			c.Records.Add(parts[i].Records)
		}
		if n == 0 {
			continue
		}
		if some++; some == 1 {
			points, c.Samples, c.Segments = wholeOf(&parts[i]), parts[i].Samples, parts[i].Segments
			continue
		}
		// The samples of both are in memory twice.
		if err := session.reserve(len(points.TsMs) + n); err != nil {
			return c, err
		}
		into := session.reader.buffers.Get(len(points.TsMs) + n)
		later := wholeOf(&parts[i])
		merge(into, points, later)
		session.budget.Release(int64(len(points.TsMs)+n-into.Len()) * column.SampleBytes)
		b.data = append(b.data, into)
		points = column.Points{TsMs: into.TsMs, Values: into.Values}
	}
	if some > 1 {
		c.Samples, c.Segments = column.Samples{}, nil
		c.Append(points, column.PropertiesOf(points))
	}
	return c, nil
}

// wholeOf returns all samples of a column.
func wholeOf(c *column.Column) column.Points {
	first := column.Points{TsMs: c.Times(nil), Values: c.Values}
	if len(c.Segments) == 0 {
		return first
	}
	out := column.Points{TsMs: slices.Clone(first.TsMs), Values: slices.Clone(first.Values)}
	for i := range c.Segments {
		out.TsMs = append(out.TsMs, c.Segments[i].Times(nil)...)
		out.Values = append(out.Values, c.Segments[i].Values...)
	}
	return out
}

// merge appends the samples of both in order of time. At equal times the samples of over win.
func merge(out *column.Buffer, under, over column.Points) {
	if len(under.TsMs) > 0 {
		over = overlay(out, under, over)
	}
	out.Append(over.TsMs, over.Values)
}
