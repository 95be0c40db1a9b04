package remotewrite

import (
	"encoding/binary"
	"math"

	"github.com/prometheus/prometheus/prompb"
)

// Field numbers of the messages.
const (
	requestSeries   = 1
	requestMetadata = 3

	seriesLabel     = 1
	seriesSample    = 2
	seriesExemplar  = 3
	seriesHistogram = 4

	sampleValue = 1
	sampleTime  = 2

	exemplarLabel = 1
	exemplarValue = 2
	exemplarTime  = 3
)

// Sample is one value; TsMs in milliseconds since 1970.
type Sample struct {
	TsMs  int64
	Value float64
}

// Kind is the kind of message that Next found.
type Kind uint8

const (
	// End means the end of the body, or an error that Err returns.
	End Kind = iota
	// TimeSeries is read by FastSample or Series.
	TimeSeries
	// MetricMetadata is read by Metadata.
	MetricMetadata
)

// Series is one TimeSeries. Samples are valid until the next call of Walker.Series, Labels as long as the body.
type Series struct {
	// Labels are the label fields as sent, tags and lengths included, one after the other.
	Labels []byte
	// Offset is where the message begins in the body.
	Offset  int
	Samples []Sample
	// Exemplars and Histograms count the other fields of the message.
	Exemplars, Histograms int
}

// Walker iterates over the messages of a WriteRequest.
type Walker struct {
	b       []byte
	pos     int
	at      int // where the current message's tag is
	from    int
	to      int
	err     error
	samples []Sample
}

// Reset begins a walk over a decoded body.
func (w *Walker) Reset(body []byte) {
	*w = Walker{b: body, samples: w.samples[:0]}
}

// Err returns the error that ended the walk: a *FormatError or nil.
func (w *Walker) Err() error { return w.err }

// Offset is where the current message begins.
func (w *Walker) Offset() int { return w.from }

// Mark returns the position of the current message for Rewind.
func (w *Walker) Mark() int { return w.at }

// Rewind makes Next return again the message that was current when Mark returned mark.
func (w *Walker) Rewind(mark int) { w.pos = mark }

// Next goes to the next message. It does not check the inside of a message; the methods that read the message do.
func (w *Walker) Next() Kind {
	for w.err == nil && w.pos < len(w.b) {
		at := w.pos
		field, wire, pos, err := tag(w.b, at, len(w.b))
		if err != nil {
			return w.fail(err)
		}
		if field != requestSeries && field != requestMetadata {
			if w.pos, err = skip(w.b, wire, pos, len(w.b)); err != nil {
				return w.fail(err)
			}
			continue
		}
		if err := expectType("a message of WriteRequest", wire, wireBytes, at); err != nil {
			return w.fail(err)
		}
		if w.from, w.to, err = lengthDelimited(w.b, pos, len(w.b)); err != nil {
			return w.fail(err)
		}
		w.pos, w.at = w.to, at
		if field == requestMetadata {
			return MetricMetadata
		}
		return TimeSeries
	}
	return End
}

func (w *Walker) fail(err error) Kind {
	w.err = err
	return End
}

// Sizes of the last field of a TimeSeries with one sample, as Prometheus writes it: the field's tag and length, the value
// with its tag (left out if the value is 0), and a six-byte timestamp (1971 to 2109) with its tag.
const (
	fastTimeBytes = 7
	fastZeroBytes = 2 + fastTimeBytes
	fastBytes     = 2 + 9 + fastTimeBytes
)

// FastSample reads the current TimeSeries if it looks like label fields followed by exactly one sample, as Prometheus writes
// it. The result is a guess. It is right if and only if Series once returned the same label bytes; otherwise use Series.
func (w *Walker) FastSample() (labels []byte, s Sample, ok bool) {
	m := w.b[w.from:w.to]
	n := len(m)
	if n < fastZeroBytes || m[n-fastTimeBytes] != sampleTime<<3|wireVarint {
		return nil, s, false
	}
	// The timestamp's six bytes must be one varint: five with the continuation bit, one without.
	t := m[n-6 : n : n]
	if t[0]&t[1]&t[2]&t[3]&t[4] < 0x80 || t[5] >= 0x80 {
		return nil, s, false
	}
	s.TsMs = int64(t[0]&0x7f) | int64(t[1]&0x7f)<<7 | int64(t[2]&0x7f)<<14 | int64(t[3]&0x7f)<<21 |
		int64(t[4]&0x7f)<<28 | int64(t[5])<<35
	if n >= fastBytes {
		v := m[n-fastBytes : n-fastTimeBytes]
		if v[0] == seriesSample<<3|wireBytes && v[1] == fastBytes-2 && v[2] == sampleValue<<3|wireFixed64 {
			s.Value = math.Float64frombits(binary.LittleEndian.Uint64(v[3:11]))
			return m[: n-fastBytes : n-fastBytes], s, true
		}
	}
	z := m[n-fastZeroBytes : n-fastTimeBytes]
	if z[0] == seriesSample<<3|wireBytes && z[1] == fastTimeBytes {
		return m[: n-fastZeroBytes : n-fastZeroBytes], s, true
	}
	return nil, s, false
}

// Series reads the current TimeSeries. It does not check the inside of label fields; AppendLabels does.
func (w *Walker) Series() (Series, error) {
	s := Series{Offset: w.from}
	samples := w.samples[:0]
	labelsFrom, labelsTo := w.from, w.from
	for pos := w.from; pos < w.to; {
		at := pos
		field, wire, next, err := tag(w.b, pos, w.to)
		if err != nil {
			return s, err
		}
		if field > seriesHistogram {
			if pos, err = skip(w.b, wire, next, w.to); err != nil {
				return s, err
			}
			continue
		}
		if err := expectType("a field of TimeSeries", wire, wireBytes, at); err != nil {
			return s, err
		}
		from, to, err := lengthDelimited(w.b, next, w.to)
		if err != nil {
			return s, err
		}
		pos = to
		switch field {
		case seriesLabel:
			switch {
			case s.Labels != nil: // already gathered elsewhere
				s.Labels = append(s.Labels, w.b[at:to]...)
			case labelsFrom == labelsTo:
				labelsFrom, labelsTo = at, to
			case labelsTo == at:
				labelsTo = to
			default: // something lies between the labels: gather them in a copy
				s.Labels = append(append([]byte{}, w.b[labelsFrom:labelsTo]...), w.b[at:to]...)
			}
		case seriesSample:
			sample, err := w.sample(from, to)
			if err != nil {
				return s, err
			}
			samples = append(samples, sample)
		case seriesExemplar:
			s.Exemplars++
			err = w.exemplar(from, to)
		case seriesHistogram:
			s.Histograms++
			err = w.histogram(from, to)
		}
		if err != nil {
			return s, err
		}
	}
	if s.Labels == nil {
		s.Labels = w.b[labelsFrom:labelsTo:labelsTo]
	}
	w.samples, s.Samples = samples, samples
	return s, nil
}

func (w *Walker) sample(pos, end int) (s Sample, err error) {
	for pos < end {
		at := pos
		field, wire, next, err := tag(w.b, pos, end)
		if err != nil {
			return s, err
		}
		switch field {
		case sampleValue:
			var bits uint64
			if bits, pos, err = fixed64(w.b, "a sample's value", wire, at, next, end); err != nil {
				return s, err
			}
			s.Value = math.Float64frombits(bits)
		case sampleTime:
			if err := expectType("a sample's timestamp", wire, wireVarint, at); err != nil {
				return s, err
			}
			var v uint64
			if v, pos, err = uvarint(w.b, next, end); err != nil {
				return s, err
			}
			s.TsMs = int64(v)
		default:
			if pos, err = skip(w.b, wire, next, end); err != nil {
				return s, err
			}
		}
	}
	return s, nil
}

func fixed64(b []byte, name string, wire, at, pos, end int) (v uint64, next int, err error) {
	if err := expectType(name, wire, wireFixed64, at); err != nil {
		return 0, 0, err
	}
	if end-pos < 8 {
		return 0, 0, formatError(at, "%s is cut off", name)
	}
	return binary.LittleEndian.Uint64(b[pos:]), pos + 8, nil
}

// exemplar checks the form of an exemplar and drops it.
func (w *Walker) exemplar(pos, end int) error {
	for pos < end {
		at := pos
		field, wire, next, err := tag(w.b, pos, end)
		if err != nil {
			return err
		}
		switch field {
		case exemplarLabel:
			if err := expectType("an exemplar's label", wire, wireBytes, at); err != nil {
				return err
			}
			var from int
			if from, pos, err = lengthDelimited(w.b, next, end); err != nil {
				return err
			}
			if _, _, err := label(w.b, from, pos); err != nil {
				return err
			}
		case exemplarValue:
			if _, pos, err = fixed64(w.b, "an exemplar's value", wire, at, next, end); err != nil {
				return err
			}
		case exemplarTime:
			if err := expectType("an exemplar's timestamp", wire, wireVarint, at); err != nil {
				return err
			}
			if _, pos, err = uvarint(w.b, next, end); err != nil {
				return err
			}
		default:
			if pos, err = skip(w.b, wire, next, end); err != nil {
				return err
			}
		}
	}
	return nil
}

// histogram checks a histogram's form with the generated decoder: histograms are rare enough for its cost.
func (w *Walker) histogram(from, to int) error {
	var h prompb.Histogram
	if err := h.Unmarshal(w.b[from:to]); err != nil {
		return formatError(from, "histogram: %v", err)
	}
	return nil
}
