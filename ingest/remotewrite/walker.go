package remotewrite

import (
	"encoding/binary"
	"math"
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
	sampleStart = 3 // only in 2.0

)

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

// Walker iterates over the messages of a WriteRequest, the message of remote write 1.0.
type Walker struct {
	b      []byte
	pos    int
	at     int // offset of the current message's tag
	from   int
	to     int
	err    error
	values values
}

// Reset begins a walk over a decoded body.
func (w *Walker) Reset(body []byte) {
	w.b, w.pos, w.at, w.from, w.to, w.err = body, 0, 0, 0, 0, nil
	w.values.reset()
}

// Reserve sets a function that is called with the memory of each histogram before it is decoded. Its error ends Series.
func (w *Walker) Reserve(reserve func(sizeBytes int) error) { w.values.reserve = reserve }

// Err returns the error that ended the walk: a *FormatError or nil.
func (w *Walker) Err() error { return w.err }

// Offset is where the current message begins.
func (w *Walker) Offset() int { return w.from }

// Mark returns the position of the current message for Rewind.
func (w *Walker) Mark() int { return w.at }

// Rewind makes Next return the message that was current when Mark returned mark.
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

// Sizes of the last field of a TimeSeries with one sample, as Prometheus writes it. The field has its tag and length, the
// value with its tag, and the timestamp with its tag. Prometheus leaves out a value of 0. Timestamps from 1971 to 2109 have
// six bytes.
const (
	fastTimeBytes = 7
	fastZeroBytes = 2 + fastTimeBytes
	fastBytes     = 2 + 9 + fastTimeBytes
)

// FastSample reads the current TimeSeries if it looks like label fields followed by exactly one sample, as Prometheus writes
// it. It does not parse the label fields. So the result is right only if Series has returned the same label bytes before. If
// ok is false, the caller uses Series.
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
	w.values.next()
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
			err = w.values.sample(w.b, from, to)
		case seriesExemplar:
			err = w.exemplar(from, to)
		case seriesHistogram:
			err = w.values.histogram(w.b, from, to)
		}
		if err != nil {
			return s, err
		}
	}
	if s.Labels == nil {
		s.Labels = w.b[labelsFrom:labelsTo:labelsTo]
	}
	w.values.into(&s)
	return s, nil
}

// exemplar reads an exemplar.
func (w *Walker) exemplar(pos, end int) error {
	v := &w.values
	v.beginExemplar()
	e, err := readExemplar(w.b, pos, end, func(wire, at, pos int) (next int, err error) {
		if err := expectType("an exemplar's label", wire, wireBytes, at); err != nil {
			return 0, err
		}
		from, next, err := lengthDelimited(w.b, pos, end)
		if err != nil {
			return 0, err
		}
		name, value, err := label(w.b, from, next)
		if err == nil {
			v.exemplarLabel(w.b[name.from:name.to], w.b[value.from:value.to])
		}
		return next, err
	})
	if err != nil {
		return err
	}
	v.addExemplar(e)
	return nil
}
