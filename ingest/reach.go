package ingest

import (
	"context"

	"halite/keyschema"
	"halite/storage/index"
	"halite/storage/tombstone"
)

// reach is the hours that a deletion may empty: those that it concerns, and the others of its first and last day. Where rows and
// states of hours are retired only the state of the day stands for these, which cannot be divided and goes as a whole.
type reach struct {
	first, last int64
	concerned   index.HourSpan
}

// reach finds out how far a deletion reaches. Before its month is closed there is no state of a day.
func (f finder) reach(t *tombstone.Tombstone) reach {
	r := reach{first: keyschema.HourOf(t.FromMs), last: keyschema.HourOf(t.ToMs)}
	r.concerned = index.HourSpan{First: r.first, Last: r.last}
	if f.states == nil {
		return r
	}
	if day := r.first / keyschema.DayHours; f.states.IsMonthClosed(day) {
		r.first = day * keyschema.DayHours
	}
	if day := r.last / keyschema.DayHours; f.states.IsMonthClosed(day) {
		r.last = (day+1)*keyschema.DayHours - 1
	}
	return r
}

// beside are the hours that the deletion does not concern itself.
func (r reach) beside() (out []index.HourSpan) {
	if r.first < r.concerned.First {
		out = append(out, index.HourSpan{First: r.first, Last: r.concerned.First - 1})
	}
	if r.last > r.concerned.Last {
		out = append(out, index.HourSpan{First: r.concerned.Last + 1, Last: r.last})
	}
	return out
}

// gone lists of each series' hours, which are within the reach, those of which neither a row nor a state is left.
func (f finder) gone(ctx context.Context, series []index.Series, r reach) ([][]index.HourSpan, error) {
	var concerned, beside []index.Series
	for _, s := range series {
		in, out := s, s
		in.Hours, out.Hours = nil, nil
		eachHour(s.Hours, func(hour int64) {
			into := &out.Hours
			if r.concerned.First <= hour && hour <= r.concerned.Last {
				into = &in.Hours
			}
			*into = append(*into, index.HourSpan{First: hour, Last: hour})
		})
		concerned, beside = append(concerned, in), append(beside, out)
	}
	empty, err := f.empty(ctx, concerned)
	if err != nil || r.first == r.concerned.First && r.last == r.concerned.Last {
		return empty, err
	}
	more, err := f.besides(ctx, beside)
	if err != nil {
		return nil, err
	}
	for n := range empty {
		empty[n] = append(empty[n], more[n]...)
	}
	return empty, nil
}
