package record

import (
	"fmt"

	"github.com/prometheus/prometheus/model/labels"
)

// KindName returns the name of a kind for a listing.
func KindName(kind byte) string {
	switch kind {
	case KindSeries:
		return "series"
	case KindSeriesColumns:
		return "series in columns"
	case KindSamples:
		return "samples"
	case KindHistograms:
		return "histograms"
	case KindStartTimes:
		return "start times"
	case KindExemplars:
		return "exemplars"
	case KindMetadata:
		return "metadata"
	case KindDeletion:
		return "deletion"
	}
	return fmt.Sprintf("kind %d", kind)
}

// Describe summarizes a payload in a few words. It returns the text of the error if the payload does not parse, and
// nothing for an unknown kind.
func Describe(kind byte, payload []byte) string {
	text, err := "", error(nil)
	switch kind {
	case KindSeries:
		text, err = describeSeries(payload, ParseSeries)
	case KindSeriesColumns:
		text, err = describePacked(payload)
	case KindSamples:
		text, err = describeSamples(payload, "samples")
	case KindStartTimes:
		text, err = describeSamples(payload, "start times")
	case KindHistograms:
		text, err = describeEncoded(payload, "histograms")
	case KindExemplars:
		text, err = describeEncoded(payload, "exemplars")
	case KindMetadata:
		text, err = describeMetadata(payload)
	case KindDeletion:
		var d Deletion
		d, err = ParseDeletion(payload)
		text = fmt.Sprintf("%d series, last record of the deletion: %t", len(d.Refs), d.Last)
	}
	if err != nil {
		return err.Error()
	}
	return text
}

func describeSamples(payload []byte, noun string) (string, error) {
	it := ReadSamples(payload)
	span := timeSpan{count: it.Left()}
	for it.Next() {
		span.add(it.TsMs)
	}
	return span.describe(noun), it.Err()
}

func describeEncoded(payload []byte, noun string) (string, error) {
	it := ReadEncoded(payload)
	span := timeSpan{count: it.Left()}
	dataBytes := 0
	for it.Next() {
		span.add(it.TsMs)
		dataBytes += len(it.Data)
	}
	return fmt.Sprintf("%s, %d B", span.describe(noun), dataBytes), it.Err()
}

// timeSpan is the number of samples of a payload, and the first and last time of the samples read so far.
type timeSpan struct {
	count        int
	some         bool
	minMs, maxMs int64
}

func (s *timeSpan) add(tsMs int64) {
	if !s.some {
		s.some, s.minMs, s.maxMs = true, tsMs, tsMs
	}
	s.minMs, s.maxMs = min(s.minMs, tsMs), max(s.maxMs, tsMs)
}

func (s *timeSpan) describe(noun string) string {
	return fmt.Sprintf("%d %s, %d to %d ms", s.count, noun, s.minMs, s.maxMs)
}

func describeMetadata(payload []byte) (string, error) {
	count, metric := 0, ""
	err := ParseMetadata(payload, func(m Metadata) error {
		if count++; count == 1 {
			metric = m.Metric
		}
		return nil
	})
	return fmt.Sprintf("%d metrics, first %q", count, metric), err
}

func describePacked(packed []byte) (string, error) {
	p, err := NewSeriesPacker()
	if err != nil {
		return "", err
	}
	defer p.Close()
	payload, err := p.Unpack(packed)
	if err != nil {
		return "", err
	}
	return describeSeries(payload, ParseSeriesColumns)
}

type parseSeries func(payload []byte, fn func(ref uint32, ls []labels.Label) error) error

func describeSeries(payload []byte, parse parseSeries) (string, error) {
	count, first := 0, ""
	err := parse(payload, func(ref uint32, ls []labels.Label) error {
		if count++; count == 1 {
			first = fmt.Sprintf("%d %s", ref, labels.New(ls...))
		}
		return nil
	})
	return fmt.Sprintf("%d series, first %s", count, first), err
}
