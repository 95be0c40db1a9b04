package promql

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index"
)

// condition is what the matchers of a selection ask of labels, as far as it says that neighbours in the table are all
// selected. If they look at leading promoted tags of a rule only, the series that share these tags are all selected or none
// is, and lie side by side: their rows are one range. It must not be used if series were left out for other reasons.
type condition struct {
	names []string        // labels that matchers look at, without the metric
	equal map[string]bool // those of which one value is asked for
	parts bool            // the selection is read in several batches
}

func newCondition(matchers []*labels.Matcher) *condition {
	c := &condition{equal: make(map[string]bool)}
	for _, m := range matchers {
		if m.Name == labelMetric || m.Type == labels.MatchRegexp && m.Value == ".*" {
			continue
		}
		if !slices.Contains(c.names, m.Name) {
			c.names = append(c.names, m.Name)
		}
		if m.Type == labels.MatchEqual {
			c.equal[m.Name] = true
		}
	}
	return c
}

// depth is the number of promoted tags, from the first on, that the condition looks at; 0 if it looks at others too, or at
// none, or if a batch need not have neighbours: batches are cut in the order of labels, which is that of row keys only among
// series with all promoted tags in common.
func (c *condition) depth(rule *keyschema.Rule) int {
	if c == nil {
		return 0
	}
	depth := 0
	for _, name := range c.names {
		at := slices.Index(rule.Promoted, name)
		if at < 0 {
			return 0
		}
		depth = max(depth, at+1)
	}
	if c.parts && depth < len(rule.Promoted) {
		return 0
	}
	return depth
}

// leadOf is the number of bytes of a row prefix, up to and with the promoted tags that the condition looks at, which it has
// in common with all series that are selected because of them; 0 if there is no such thing.
func (c *condition) leadOf(rule *keyschema.Rule, prefix []byte, tags []keyschema.Tag) int {
	depth := c.depth(rule)
	if depth == 0 {
		return 0
	}
	for _, name := range rule.Promoted[:depth] {
		if !slices.ContainsFunc(tags, func(t keyschema.Tag) bool { return t.Name == name && t.Value != "" }) {
			return 0
		}
	}
	at := bytes.IndexByte(prefix, '#') + 1
	at += bytes.IndexByte(prefix[at:], '#') + 1
	for range depth {
		if prefix[at] == '$' {
			return 0 // the tags did not fit, a hash stands for them
		}
		at += bytes.IndexAny(prefix[at:], ",#") + 1
	}
	return at - 1
}

// coalesce joins the row ranges of neighbouring series where every row between them is wanted too. Rows that come to lie
// there later are read in vain.
func (p *piece) coalesce(ctx context.Context, reads []dayRead) error {
	if p.condition == nil || p.needed != nil {
		return nil
	}
	joins := joiner{piece: p, values: make(map[string][]string)}
	for i := range reads {
		r := &reads[i]
		if !slices.ContainsFunc(r.owners, func(o rowPrefix) bool { return o.lead > 0 }) {
			continue
		}
		from, to, ok := p.wantedAlike(r.fromHour, r.toHour)
		if !ok {
			continue
		}
		merged := make([]storage.RowRange, 0, len(r.ranges))
		for k := range r.ranges {
			if k > 0 {
				ok, err := joins.adjoin(ctx, r.owners, k)
				if err != nil {
					return err
				}
				if ok {
					merged[len(merged)-1].End = r.ranges[k].End
					continue
				}
			}
			merged = append(merged, r.ranges[k])
		}
		if len(merged) < len(r.ranges) {
			r.merged, r.fromHour, r.toHour = merged, from, to
		}
	}
	return nil
}

// wantedAlike finds the hours, of those from the first to the last, of which all rows of all series are wanted and no others
// are; not ok if rows that are kept decoded lie between.
func (p *piece) wantedAlike(first, last int64) (from, to int64, ok bool) {
	from, to = last+1, first-1
	for i := range p.series {
		if a, b, some := hull(p.wantedOf(i), first, last); some {
			from, to = min(from, a), max(to, b)
		}
	}
	for i := range p.series {
		if p.wanted != nil && hoursWithin(p.hoursOf(i), from, to) != hoursWithin(p.wanted[i], from, to) {
			return 0, 0, false
		}
	}
	return from, to, from <= to
}

// hoursWithin counts the hours of spans from the first to the last.
func hoursWithin(spans []index.HourSpan, first, last int64) int64 {
	n := int64(0)
	for _, s := range spans {
		n += max(0, min(s.Last, last)-max(s.First, first)+1)
	}
	return n
}

// joiner decides which neighbours adjoin.
type joiner struct {
	*piece
	// values are the tags that occur, as they stand in row keys and sorted, behind what precedes them there; nil if they are
	// too many to know.
	values map[string][]string
}

// adjoin reports whether nothing but selected series lies between owner k and the one before it.
func (j *joiner) adjoin(ctx context.Context, owners []rowPrefix, k int) (bool, error) {
	a, b := owners[k-1], owners[k]
	if a.lead == 0 || b.lead == 0 {
		return false, nil
	}
	before, lead := a.prefix[:a.lead], b.prefix[:b.lead]
	if bytes.Equal(before, lead) {
		return true, nil
	}
	if j.condition.parts {
		return false, nil
	}
	// They differ in promoted tags. If only in the last one, all values of it between the two must be selected.
	stem := bytes.LastIndexAny(lead, ",#") + 1
	if !bytes.HasPrefix(before, lead[:stem]) || bytes.ContainsAny(before[stem:], ",#") {
		return false, nil
	}
	values, known := j.values[string(lead[:stem])]
	if !known {
		var err error
		if values, err = j.occurring(ctx, owners, k, lead[:stem]); err != nil {
			return false, err
		}
		j.values[string(lead[:stem])] = values
	}
	at, found := slices.BinarySearch(values, string(before[stem:]))
	return found && at+1 < len(values) && values[at+1] == string(lead[stem:]), nil
}

// occurring lists the values that the last tag of a lead has among all series with the tags before it, not only the selected
// ones; nil if there are many more than selected, or if their order is not that of row keys.
func (j *joiner) occurring(ctx context.Context, owners []rowPrefix, k int, stem []byte) ([]string, error) {
	builder := labels.NewScratchBuilder(16)
	ls := j.series[owners[k].series].AllLabels(&builder)
	metric := ls.Get(labelMetric)
	rule := j.opts.Schema.RuleAt(metric, owners[k].fromHour)
	depth := j.condition.depth(rule)
	name := rule.Promoted[depth-1]
	if j.condition.equal[name] || slices.Contains(rule.ReversedDomains, name) {
		return nil, nil
	}
	matchers := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, labelMetric, metric)}
	for _, before := range rule.Promoted[:depth-1] {
		matchers = append(matchers, labels.MustNewMatcher(labels.MatchEqual, before, ls.Get(before)))
	}
	selected := 0
	for i := k - 1; i < len(owners) && bytes.HasPrefix(owners[i].prefix, stem); i++ {
		selected++
	}
	limit := 4*selected + occurringSlack
	list, err := j.opts.Catalogue.LabelValues(ctx, name, j.window.mintMs, j.window.maxtMs, limit, matchers...)
	if err != nil {
		return nil, storageError("look up promoted tags", err)
	}
	if len(list) == limit {
		return nil, nil
	}
	escaped := string(keyschema.AppendEscaped(nil, name)) + "="
	out := make([]string, len(list))
	for i, value := range list {
		out[i] = escaped + string(keyschema.AppendEscaped(nil, value))
	}
	slices.SortFunc(out, strings.Compare)
	return out, nil
}

// occurringSlack is how many more values than selected series are looked at, and four times these.
const occurringSlack = 64

// asked are the ranges to read.
func (d *dayRead) asked() []storage.RowRange {
	if d.merged != nil {
		return d.merged
	}
	return d.ranges
}
