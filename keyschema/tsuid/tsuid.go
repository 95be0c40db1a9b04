package tsuid

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/zeebo/xxh3"
)

// Width is the number of bytes of a UID.
const Width = 8

// UID identifies a name among the names of its kind.
type UID [Width]byte

// Kind is the kind of object that a name identifies: a metric, a tag key or a tag value.
type Kind uint64

// The kinds of names. They are seeds of a hash, so they never change.
const (
	Metric Kind = iota + 1
	Key
	Value
)

// String returns OpenTSDB's word for the kind in errors and paths.
func (k Kind) String() string {
	switch k {
	case Metric:
		return "metric"
	case Key:
		return "tagk"
	default:
		return "tagv"
	}
}

// Labels of rollups and pre-aggregates that a client has written. A series without them holds raw samples.
const (
	// IntervalLabel is the interval of a rollup, such as 1h.
	IntervalLabel = "_rollup_interval"
	// AggregatorLabel is the aggregator of a rollup in capitals, such as SUM.
	AggregatorLabel = "_rollup_aggregator"
	// GroupLabel is the aggregator of a pre-aggregate in capitals. It is OpenTSDB's default tag.
	GroupLabel = "_aggregate"
)

// Derive returns the UID of a name.
func Derive(kind Kind, name string) (id UID) {
	h := xxh3.HashStringSeed(name, uint64(kind))
	for n := range id {
		id[n] = byte(h >> (8 * (Width - 1 - n)))
	}
	return id
}

// String returns a UID as OpenTSDB writes it: hexadecimal digits in capitals.
func (id UID) String() string { return strings.ToUpper(hex.EncodeToString(id[:])) }

// pair is the UIDs of a tag.
type pair struct{ key, value UID }

// Append appends the tsuid of a series to dst. It is the UID of the metric, then two UIDs for each tag, in the order of the
// keys' UIDs.
func Append(dst []byte, series labels.Labels) []byte {
	pairs := make([]pair, 0, series.Len())
	metric := ""
	series.Range(func(l labels.Label) {
		if l.Name == model.MetricNameLabel {
			metric = l.Value
			return
		}
		pairs = append(pairs, pair{Derive(Key, l.Name), Derive(Value, l.Value)})
	})
	slices.SortFunc(pairs, func(a, b pair) int { return bytes.Compare(a.key[:], b.key[:]) })
	id := Derive(Metric, metric)
	dst = append(dst, id[:]...)
	for n := range pairs {
		dst = append(append(dst, pairs[n].key[:]...), pairs[n].value[:]...)
	}
	return dst
}

// Keys returns the tag keys of a series in the order of its tsuid.
func Keys(series labels.Labels) (keys []string) {
	series.Range(func(l labels.Label) {
		if l.Name != model.MetricNameLabel {
			keys = append(keys, l.Name)
		}
	})
	slices.SortFunc(keys, func(a, b string) int {
		one, other := Derive(Key, a), Derive(Key, b)
		return bytes.Compare(one[:], other[:])
	})
	return keys
}

// Text returns the tsuid of a series in hexadecimal digits.
func Text(series labels.Labels) string {
	return strings.ToUpper(hex.EncodeToString(Append(make([]byte, 0, 128), series)))
}

// errLength means that a text does not have the length of a UID or tsuid.
var errLength = errors.New("wrong length")

// Parse reads a UID from hexadecimal digits in either case.
func Parse(text string) (id UID, err error) {
	if len(text) != 2*Width {
		return id, fmt.Errorf("UID %q has %d digits instead of %d: %w", text, len(text), 2*Width, errLength)
	}
	if _, err := hex.Decode(id[:], []byte(text)); err != nil {
		return id, fmt.Errorf("UID %q: %w", text, err)
	}
	return id, nil
}

// Series holds the UIDs of a parsed tsuid.
type Series struct {
	Metric UID
	// Keys and Values have one element for each tag.
	Keys, Values []UID
}

// ParseSeries reads a tsuid from hexadecimal digits in either case.
func ParseSeries(text string) (s Series, err error) {
	if len(text) < 2*Width || (len(text)-2*Width)%(4*Width) != 0 {
		return s, fmt.Errorf("tsuid %q has %d digits instead of %d and %d for each tag: %w",
			text, len(text), 2*Width, 4*Width, errLength)
	}
	raw, err := hex.DecodeString(text)
	if err != nil {
		return s, fmt.Errorf("tsuid %q: %w", text, err)
	}
	s.Metric = UID(raw)
	for raw = raw[Width:]; len(raw) > 0; raw = raw[2*Width:] {
		s.Keys, s.Values = append(s.Keys, UID(raw)), append(s.Values, UID(raw[Width:]))
	}
	return s, nil
}
