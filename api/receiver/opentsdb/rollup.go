package opentsdb

import (
	"cmp"
	"slices"
	"strings"

	"halite/ingest"
	"halite/ingest/batch"
	"halite/ingest/remotewrite"
	"halite/keyschema/tsuid"
)

// aggregate describes a data point of a rollup. Empty fields are absent.
type aggregate struct {
	// interval and aggregator belong to a rollup, such as 1h and SUM. group is the aggregator of a pre-aggregate.
	interval, aggregator, group string
}

// noRollupError means that a rollup with that interval or aggregator does not exist.
type noRollupError struct{ text string }

func (e *noRollupError) Error() string { return e.text }

// check returns the fault of an aggregate. It converts aggregators to upper case.
func (a *aggregate) check() error {
	a.aggregator, a.group = strings.ToUpper(a.aggregator), strings.ToUpper(a.group)
	if a.interval == "" && a.group == "" {
		return argument("Missing interval or aggregator")
	}
	if a.interval != "" {
		if !isInterval(a.interval) {
			return &noRollupError{"No rollup interval configured for: " + clip([]byte(a.interval))}
		}
		if err := checkAggregator("rollup", a.aggregator); err != nil {
			return err
		}
	}
	if a.group != "" {
		return checkAggregator("group by", a.group)
	}
	return nil
}

// checkAggregator refuses unknown aggregators, and aggregators that cannot be computed from other aggregates.
func checkAggregator(what, name string) error {
	switch {
	case name == "AVG" || name == "DEV":
		return argument("Derived %s aggregations are not allowed %s", what, name)
	case name == "NONE" || !slices.ContainsFunc(Aggregators(), func(a string) bool { return strings.EqualFold(a, name) }):
		return argument("Invalid %s aggregator %s", what, clip([]byte(name)))
	}
	return nil
}

// isInterval reports whether a text is an interval such as 1h.
func isInterval(text string) bool {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	return digits > 0 && digits <= 5 && text[0] != '0' &&
		slices.Contains([]string{"ms", "s", "m", "h", "d", "w", "n", "y"}, text[digits:])
}

// tags adds the reserved tags of an aggregate.
func (a *aggregate) tags(names *Names, tags []tag) ([]tag, error) {
	for n := range tags { // a client may write the tag itself, in any case
		if string(tags[n].key) != tsuid.GroupLabel {
			continue
		}
		if !strings.EqualFold(string(tags[n].value), a.group) {
			return tags, argument("Given tag value for %s of %s did not match the group by aggregator of %s",
				tsuid.GroupLabel, clip(tags[n].value), cmp.Or(a.group, "null"))
		}
		tags[n].value = []byte(a.group)
	}
	for _, more := range [...][2]string{
		{tsuid.IntervalLabel, a.interval}, {tsuid.AggregatorLabel, a.aggregator}, {tsuid.GroupLabel, a.group},
	} {
		if more[1] == "" || more[0] == tsuid.AggregatorLabel && a.interval == "" {
			continue
		}
		var err error
		if tags, err = names.add(tags, []byte(more[0]), []byte(more[1])); err != nil {
			return tags, err
		}
	}
	return tags, nil
}

// aggregateOf reads interval-aggregator:group, interval-aggregator, or group.
func aggregateOf(text []byte) (a aggregate) {
	first, group, _ := strings.Cut(string(text), ":")
	if interval, aggregator, ok := strings.Cut(first, "-"); ok {
		return aggregate{interval, aggregator, group}
	}
	if group != "" {
		return aggregate{group: group}
	}
	return aggregate{group: first}
}

// rollup adds the data point of "interval-aggregator:group metric timestamp value tags".
func (l *Lines) rollup(line []byte, b *batch.Batch) (fault, err error) {
	var what, metric, at, text []byte
	rest, ok := words(line, &what, &metric, &at, &text)
	if !ok || rest == nil {
		return tooFew(line, 7), nil
	}
	if len(what) == 0 {
		return argument("Missing interval or aggregator"), nil
	}
	a := aggregateOf(what)
	tsMs, fault := l.parsePoint(metric, at, text, rest)
	if fault != nil {
		return fault, nil
	}
	p := point{metric: metric, tsMs: tsMs, tags: l.tags, value: text}
	if fault := p.addRollup(l.names, &a); fault != nil {
		return fault, nil
	}
	l.tags = p.tags[:0]
	l.key = appendKey(l.key[:0], metric, p.tags)
	return p.store(l.key, b)
}

// addRollup checks an aggregate and adds its tags to the data point.
func (p *point) addRollup(names *Names, a *aggregate) (err error) {
	if err := a.check(); err != nil {
		return err
	}
	if p.tsMs > 1000*secondsMax || p.tsMs%1000 != 0 {
		return argument("bad timestamp=%d", p.tsMs)
	}
	p.tags, err = a.tags(names, p.tags)
	return err
}

// point is a data point with a number.
type point struct {
	metric, value []byte
	tags          []tag
	tsMs          int64
}

// store adds the data point to a batch.
func (p *point) store(key []byte, b *batch.Batch) (fault, err error) {
	v, rounded, fault := parseValue(p.value, p.metric, p.tsMs)
	if fault != nil {
		return fault, nil
	}
	if rounded {
		b.Reject(batch.Rejection{Count: 1, Reason: ingest.ReasonRounded, Silent: true})
	}
	if err := b.Begin(key); err != nil {
		return nil, err
	}
	b.Sample(remotewrite.Sample{TsMs: p.tsMs, Value: v})
	return nil, nil
}
