package opentsdb

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/histogram"

	"halite/ingest/batch"
	"halite/ingest/remotewrite"
)

// bucket counts the values from lower to upper.
type bucket struct {
	lower, upper float64
	count        uint64
}

// buckets is a histogram of OpenTSDB's codec SimpleHistogramDecoder.
type buckets struct {
	list []bucket
	// under and over count the values below and above all buckets.
	under, over uint64
}

// histogram adds the histogram of "metric timestamp value tags" or "metric timestamp codec value tags".
func (l *Lines) histogram(line []byte, b *batch.Batch) (fault, err error) {
	var metric, at, text []byte
	rest, ok := words(line, &metric, &at, &text)
	if !ok || rest == nil {
		return tooFew(line, 5), nil
	}
	if len(metric) == 0 {
		return argument("empty metric name"), nil
	}
	tsMs, fault := parseTime(at)
	if fault != nil {
		return fault, nil
	}
	_, notCodec := strconv.Atoi(string(text))
	if notCodec == nil {
		if rest, ok = words(rest, &text); !ok || rest == nil {
			return tooFew(line, 5), nil
		}
	}
	if len(text) == 0 {
		return argument("empty histogram value"), nil
	}
	if fault := l.parseTags(rest, metric); fault != nil {
		return fault, nil
	}
	var h buckets
	if notCodec == nil {
		fault = h.decode(text)
	} else {
		fault = h.parse(text)
	}
	if fault != nil {
		return fault, nil
	}
	l.key = appendKey(l.key[:0], metric, l.tags)
	return h.store(l.key, tsMs, b)
}

// parse reads "lower,upper=count:lower,upper=count:u=under:o=over".
func (h *buckets) parse(text []byte) error {
	for part := range bytes.SplitSeq(text, []byte{':'}) {
		name, count, ok := strings.Cut(string(part), "=")
		if !ok || strings.Contains(count, "=") {
			return argument("Improperly formatted bucket: %s", clip(part))
		}
		n, err := parseCount(count)
		if err != nil {
			return err
		}
		switch strings.ToLower(name) {
		case "u":
			h.under = n
		case "o":
			h.over = n
		default:
			err := h.add(name, n)
			if errors.Is(err, errBounds) {
				err = argument("Improperly formatted bounds: %s", clip(part))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// parseCount reads the number of values in a bucket.
func parseCount(text string) (uint64, error) {
	n, err := parseLong([]byte(text))
	if err != nil {
		return 0, err
	}
	if n < 0 {
		return 0, argument("negative count of a bucket: %d", n)
	}
	return uint64(n), nil
}

// errBounds means that a bucket has fewer or more than two bounds.
var errBounds = errors.New("a bucket needs two bounds")

// add adds the bucket with the bounds "lower,upper". The error may be errBounds.
func (h *buckets) add(bounds string, count uint64) error {
	first, second, ok := strings.Cut(bounds, ",")
	if !ok || strings.Contains(second, ",") {
		return errBounds
	}
	b := bucket{count: count}
	for _, bound := range [...]struct {
		text string
		at   *float64
	}{{first, &b.lower}, {second, &b.upper}} {
		v, err := strconv.ParseFloat(strings.TrimSpace(bound.text), 64)
		if err != nil {
			return number("For input string: \"%s\"", clip([]byte(bound.text)))
		}
		*bound.at = v
	}
	h.list = append(h.list, b)
	return nil
}

var errBinary = errors.New("the bytes are not a histogram of the codec SimpleHistogramDecoder")

// decode reads the base64 of a binary histogram. It begins with the number of buckets in two bytes. For each bucket, its
// bounds as float32 and its count as a varint follow. The counts outside come last. All is big-endian.
func (h *buckets) decode(text []byte) error {
	raw, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil || len(raw) < 4 {
		return argument("%s", errBinary)
	}
	count := binary.BigEndian.Uint16(raw)
	for raw = raw[2:]; count > 0; count-- {
		if len(raw) < 9 {
			return argument("%s", errBinary)
		}
		b := bucket{lower: widen(raw), upper: widen(raw[4:])}
		if b.count, raw = varint(raw[8:]); raw == nil {
			return argument("%s", errBinary)
		}
		h.list = append(h.list, b)
	}
	if h.under, raw = varint(raw); raw == nil {
		return argument("%s", errBinary)
	}
	if h.over, raw = varint(raw); raw == nil || len(raw) > 0 {
		return argument("%s", errBinary)
	}
	return nil
}

// widen reads a float32. It returns the float64 of the shortest decimal text of that float32.
func widen(raw []byte) float64 {
	short := math.Float32frombits(binary.BigEndian.Uint32(raw))
	v, _ := strconv.ParseFloat(strconv.FormatFloat(float64(short), 'g', -1, 32), 64) // a text of FormatFloat always parses
	return v
}

// varint reads a number of up to nine bytes: seven bits each, and eight in the last one. It returns the rest, nil if the number
// is cut short.
func varint(raw []byte) (v uint64, rest []byte) {
	for n, c := range raw {
		if n == 8 {
			return v | uint64(c)<<56, raw[n+1:]
		}
		v |= uint64(c&0x7f) << (7 * n)
		if c < 0x80 {
			return v, raw[n+1:]
		}
	}
	return 0, nil
}

// store adds a native histogram with custom buckets to a batch.
func (h *buckets) store(key []byte, tsMs int64, b *batch.Batch) (fault, err error) {
	native, fault := h.native()
	if fault != nil {
		return fault, nil
	}
	if err := b.Begin(key); err != nil {
		return nil, err
	}
	b.Histogram(remotewrite.Histogram{TsMs: tsMs, H: native})
	return nil, nil
}

// native returns the native histogram. It is a gauge, because each histogram of OpenTSDB counts its own values. Its sum is NaN,
// because OpenTSDB has no sum. A gap between two buckets becomes an empty bucket, because it has no values.
func (h *buckets) native() (*histogram.Histogram, error) {
	if len(h.list) == 0 {
		return nil, argument("Histogram buckets cannot be null or empty if 'value' is empty.")
	}
	list := slices.Clone(h.list)
	slices.SortStableFunc(list, func(a, b bucket) int { return cmp.Compare(a.lower, b.lower) })
	bounds, counts := []float64{list[0].lower}, []uint64{h.under}
	for n := range list {
		b := &list[n]
		last := bounds[len(bounds)-1]
		if n > 0 && b.lower == list[n-1].lower && b.upper == list[n-1].upper { // the later one wins
			counts[len(counts)-1] = b.count
			continue
		}
		switch {
		case math.IsInf(b.lower, 0) || math.IsInf(b.upper, 0) || !(b.lower < b.upper):
			return nil, argument("Improperly formatted bounds: %g,%g", b.lower, b.upper)
		case b.lower < last:
			return nil, argument("buckets overlap at %g,%g", b.lower, b.upper)
		case b.lower > last:
			bounds, counts = append(bounds, b.lower), append(counts, 0)
		}
		bounds, counts = append(bounds, b.upper), append(counts, b.count)
	}
	counts = append(counts, h.over)
	out := &histogram.Histogram{
		CounterResetHint: histogram.GaugeType, Schema: histogram.CustomBucketsSchema, Sum: math.NaN(), CustomValues: bounds,
		PositiveSpans: []histogram.Span{{Length: uint32(len(counts))}},
	}
	previous := int64(0)
	for _, count := range counts {
		if count > math.MaxInt64-out.Count {
			return nil, argument("the counts of the buckets overflow")
		}
		out.Count += count
		out.PositiveBuckets = append(out.PositiveBuckets, int64(count)-previous)
		previous = int64(count)
	}
	return out.Compact(0), nil
}
