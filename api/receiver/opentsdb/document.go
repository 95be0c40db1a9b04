package opentsdb

import (
	"bytes"
	"errors"
	"math"
	"strconv"

	"halite/ingest/batch"
)

// document is a data point in JSON.
type document struct {
	point
	ts      []byte
	noTags  bool
	what    aggregate
	buckets buckets
	// fault is the first fault of the buckets. given is the number of tags in the request.
	fault error
	given int
}

// read reads the data point that begins at the scanner's position.
func (d *document) read(s *scanner) error {
	*d = document{point: point{tags: d.tags[:0]}, noTags: true, buckets: buckets{list: d.buckets.list[:0]}}
	defer func() { d.given = len(d.tags) }()
	return s.members(func(name []byte) (err error) {
		switch string(name) {
		case "metric":
			d.metric, err = s.scalar()
		case "timestamp":
			d.ts, err = s.scalar()
		case "value":
			d.value, err = s.scalar()
		case "tags":
			err = d.readTags(s)
		case "interval":
			d.what.interval, err = s.word()
		case "aggregator":
			d.what.aggregator, err = s.word()
		case "groupByAggregator":
			d.what.group, err = s.word()
		case "buckets":
			err = d.readBuckets(s)
		case "underflow":
			d.buckets.under, err = d.count(s)
		case "overflow":
			d.buckets.over, err = d.count(s)
		default:
			err = s.skip(0)
		}
		return err
	})
}

// word reads a scalar as a string.
func (s *scanner) word() (string, error) {
	text, err := s.scalar()
	return string(text), err
}

// count reads the number of values in a bucket.
func (d *document) count(s *scanner) (uint64, error) {
	text, err := s.word()
	if err != nil || text == "" {
		return 0, err
	}
	n, fault := parseCount(text)
	d.fail(fault)
	return n, nil
}

// fail keeps the first fault of the buckets, because the other data points of the request are good.
func (d *document) fail(fault error) {
	if d.fault == nil {
		d.fault = fault
	}
}

// readTags reads the tags. If tags have equal keys, the last one wins, as in OpenTSDB.
func (d *document) readTags(s *scanner) error {
	if s.peek() == 'n' {
		_, err := s.scalar()
		return err
	}
	d.noTags = false
	return s.members(func(key []byte) error {
		value, err := s.scalar()
		if err != nil {
			return err
		}
		for n := range d.tags {
			if bytes.Equal(d.tags[n].key, key) {
				d.tags[n].value = value
				return nil
			}
		}
		if len(d.tags) < tagsReadMax {
			d.tags = append(d.tags, tag{key, value})
		}
		return nil
	})
}

// tagsReadMax bounds the tags that are read. A data point with more tags than that is refused anyway.
const tagsReadMax = 1 << 12

func (d *document) readBuckets(s *scanner) error {
	if s.peek() == 'n' {
		_, err := s.scalar()
		return err
	}
	return s.members(func(bounds []byte) error {
		n, err := d.count(s)
		if err != nil {
			return err
		}
		fault := d.buckets.add(string(bounds), n)
		if errors.Is(fault, errBounds) {
			fault = argument("Unable to parse bucket bounds: %s", clip(bounds))
		}
		d.fail(fault)
		return nil
	})
}

// check returns the fault of a data point of the kind, in OpenTSDB's words.
func (d *document) check(kind kind, names *Names) error {
	if len(d.metric) == 0 {
		return argument("Metric name was empty")
	}
	ts, ok := wholeNumber(d.ts)
	if !ok || ts <= 0 {
		return argument("Invalid timestamp")
	}
	if kind != kindHistogram && len(d.value) == 0 {
		return argument("Empty value")
	}
	if len(d.tags) == 0 {
		return argument("Missing tags")
	}
	var err error
	if d.tsMs, err = milliseconds(ts); err != nil {
		return err
	}
	if len(d.tags) > names.tagsMax {
		return argument("Too many tags: %d maximum allowed: %d", len(d.tags), names.tagsMax)
	}
	if err := names.checkFilled(d.metric, d.tags); err != nil || kind != kindRollup {
		return err
	}
	if d.what.group == "" {
		switch {
		case d.what.interval == "":
			return argument("Missing interval")
		case d.what.aggregator == "":
			return argument("Missing aggregator")
		}
	}
	return d.addRollup(names, &d.what)
}

// wholeNumber reads a whole number. Decimals are cut off, as in OpenTSDB.
func wholeNumber(text []byte) (int64, bool) {
	if v, err := parseLong(text); err == nil {
		return v, true
	}
	v, err := strconv.ParseFloat(string(text), 64)
	return int64(v), err == nil && math.Abs(v) < 1<<62
}

// store checks the data point and adds it to a batch.
func (d *document) store(kind kind, names *Names, key []byte, b *batch.Batch) (usedKey []byte, fault, err error) {
	if fault := d.check(kind, names); fault != nil {
		return key, fault, nil
	}
	key = appendKey(key[:0], d.metric, d.tags)
	if kind != kindHistogram {
		fault, err = d.point.store(key, b)
		return key, fault, err
	}
	if len(d.value) > 0 {
		d.buckets = buckets{}
		d.fault = d.buckets.decode(d.value)
	}
	if d.fault != nil {
		return key, d.fault, nil
	}
	fault, err = d.buckets.store(key, d.tsMs, b)
	return key, fault, err
}

// shown is a data point in a response. Fields that the request lacks are nil.
type shown struct {
	Metric            *string           `json:"metric,omitempty"`
	Timestamp         int64             `json:"timestamp"`
	Value             *string           `json:"value,omitempty"`
	Tags              map[string]string `json:"tags,omitzero"`
	Interval          string            `json:"interval,omitempty"`
	Aggregator        string            `json:"aggregator,omitempty"`
	GroupByAggregator string            `json:"groupByAggregator,omitempty"`
}

// shown returns the data point in the form of the request.
func (d *document) shown() *shown {
	out := &shown{
		Metric: optional(d.metric), Value: optional(d.value),
		Interval: d.what.interval, Aggregator: d.what.aggregator, GroupByAggregator: d.what.group,
	}
	out.Timestamp, _ = wholeNumber(d.ts) // otherwise 0
	if !d.noTags {
		out.Tags = map[string]string{}
	}
	for _, t := range d.tags[:d.given] {
		out.Tags[clip(t.key)] = clip(t.value)
	}
	return out
}

// optional returns a text for a response, nil if the request lacks it.
func optional(text []byte) *string {
	if text == nil {
		return nil
	}
	out := clip(text)
	return &out
}
