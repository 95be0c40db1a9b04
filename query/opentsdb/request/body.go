package request

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"halite/query/opentsdb/aggregation"
)

// query is a query in the JSON form of a body.
type query struct {
	Start, End        text
	Timezone          string
	UseCalendar       flag
	MsResolution      flag
	NoAnnotations     flag
	GlobalAnnotations flag
	ShowTSUIDs        flag
	ShowQuery         flag
	ShowStats         flag
	ShowSummary       flag
	Delete            flag
	Queries           []subQuery
}

// subQuery is a sub-query in the JSON form of a body.
type subQuery struct {
	Aggregator   string
	Metric       string
	TSUIDs       []string
	Tags         tags
	Filters      []bodyFilter
	ExplicitTags flag
	Downsample   string
	Rate         flag
	RateOptions  *rateOptions
	Percentiles  []float64
	ShowBuckets  flag `json:"showHistogramBuckets"`
	RollupUsage  string
	PreAggregate flag

	parsed   []Filter // filters of the parameter m
	offsetMs int64
}

type rateOptions struct {
	Counter    flag
	CounterMax *integer
	ResetValue integer
	DropResets flag
}

// bodyFilter is a filter in the JSON form of a body. OpenTSDB accepts both spellings of groupBy.
type bodyFilter struct {
	Type     string
	Tagk     string
	Filter   string
	GroupBy  flag
	GroupBy2 flag `json:"group_by"`
}

// tag is a member of the object tags; tags keeps the order of its members.
type (
	tag  struct{ key, value string }
	tags []tag
)

// UnmarshalJSON implements json.Unmarshaler.
func (t *tags) UnmarshalJSON(body []byte) error {
	d := json.NewDecoder(bytes.NewReader(body))
	open, err := d.Token()
	if err != nil || open == nil {
		return err
	}
	if open != json.Delim('{') {
		return bad("tags must be an object")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var value string
		if err := d.Decode(&value); err != nil {
			return bad("the tag %q: %s", key, err)
		}
		*t = append(*t, tag{fmt.Sprint(key), value})
	}
	return nil
}

// text is a string that may be written as a number.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(body []byte) error {
	var s string
	switch c := body[0]; {
	case c == 'n':
		return nil
	case c == '"':
		if err := json.Unmarshal(body, &s); err != nil {
			return err
		}
	case c == '{', c == '[':
		return bad("is neither a string nor a number")
	default:
		s = string(body)
	}
	*t = text(s)
	return nil
}

// flag is a boolean that may be written as a string.
type flag bool

// UnmarshalJSON implements json.Unmarshaler.
func (b *flag) UnmarshalJSON(body []byte) error {
	word := strings.Trim(string(body), `"`)
	if word == "null" || word == "" {
		return nil
	}
	v, err := strconv.ParseBool(word)
	if err != nil {
		return bad("%s is neither true nor false", body)
	}
	*b = flag(v)
	return nil
}

// integer is a whole number that may be written as a string or with decimals, which are cut off.
type integer int64

// UnmarshalJSON implements json.Unmarshaler.
func (n *integer) UnmarshalJSON(body []byte) error {
	word := strings.Trim(string(body), `"`)
	if word == "null" || word == "" {
		return nil
	}
	v, err := strconv.ParseInt(word, 10, 64)
	if f, wrong := strconv.ParseFloat(string(body), 64); err != nil && wrong == nil && math.Abs(f) < 1<<63 {
		v, err = int64(f), nil
	}
	if err != nil {
		return bad("%s is not a whole number", body)
	}
	*n = integer(v)
	return nil
}

// JSON parses the body of a POST request.
func (p *Parser) JSON(body []byte) (*Query, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, noContent()
	}
	var raw query
	if err := json.Unmarshal(body, &raw); err != nil {
		return nil, malformed(err)
	}
	if raw.Start == "" {
		return nil, bad("Missing start time")
	}
	return p.checkDistinct(&raw)
}

func (raw *subQuery) rate() *aggregation.Rate {
	r := &aggregation.Rate{CounterMax: aggregation.DefaultCounterMax}
	if o := raw.RateOptions; o != nil {
		r.Counter, r.ResetValue, r.DropResets = bool(o.Counter), int64(o.ResetValue), bool(o.DropResets)
		if o.CounterMax != nil {
			r.CounterMax = int64(*o.CounterMax)
		}
	}
	return r
}

// allFilters returns the filters of Tags, Filters and parsed.
func (raw *subQuery) allFilters() (all []Filter, err error) {
	for _, t := range raw.Tags {
		f, err := TagFilter(t.key, t.value)
		if err != nil {
			return nil, err
		}
		f.GroupBy = true
		all = append(all, f)
	}
	for _, f := range raw.Filters {
		checked, err := newFilter(f.Type, f.Tagk, f.Filter)
		if err != nil {
			return nil, err
		}
		checked.GroupBy = bool(f.GroupBy || f.GroupBy2)
		all = append(all, checked)
	}
	return append(all, raw.parsed...), nil
}
