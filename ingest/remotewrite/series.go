package remotewrite

import (
	"unsafe"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
)

// Series is one TimeSeries of either version. Samples and Refs are valid until the next call of the walker's Series.
// Exemplars and Histograms, with the memory that they refer to, are valid until the walker's next Reset or Series.
type Series struct {
	// Labels are the label fields of 1.0 as sent, tags and lengths included, one after the other. They are valid as long as
	// the body.
	Labels []byte
	// Refs are the labels of 2.0: references to symbols, alternately of a name and of its value.
	Refs []uint32
	// Offset is where the message begins in the body.
	Offset     int
	Samples    []Sample
	Histograms []Histogram
	Exemplars  []Exemplar
	// Metadata describes the metric; only 2.0 has it here.
	Metadata MetadataRefs
	// Fault is a *ReferenceError if a reference of 2.0 is wrong. It makes this series invalid, but not the request.
	Fault error
	// ExemplarFaults is the number of exemplars with a wrong reference, which Exemplars lacks. ExemplarFault is the
	// *ReferenceError of the last one.
	ExemplarFaults int
	ExemplarFault  error
}

// Count is the number of samples, histograms and exemplars, valid or not.
func (s *Series) Count() int {
	return len(s.Samples) + len(s.Histograms) + len(s.Exemplars) + s.ExemplarFaults
}

// Sample is one value. Times are in milliseconds since 1970; StartMs is 0 if the sender did not set it.
type Sample struct {
	TsMs, StartMs int64
	Value         float64
}

// Histogram is one native histogram; exactly one of H and FH is set. Sample explains the times. The histogram is as sent, so it
// may be invalid.
type Histogram struct {
	TsMs, StartMs int64
	H             *histogram.Histogram
	FH            *histogram.FloatHistogram
}

// Exemplar is one exemplar; TsMs in milliseconds since 1970. Labels are sorted. The caller may keep it.
type Exemplar struct {
	TsMs   int64
	Value  float64
	Labels labels.Labels
}

// valuesKeepMax is the largest number of elements whose memory the next request reuses.
const valuesKeepMax = 1 << 16

// values collects the samples, histograms and exemplars of a series. It reuses its memory.
type values struct {
	samples    []Sample
	histograms []Histogram
	exemplars  []Exemplar
	decoder    histogramDecoder
	builder    labels.ScratchBuilder // of the labels of an exemplar
	labelBytes int                   // size of the labels in builder
	starts     bool                  // samples and histograms may have start timestamps: the body is of 2.0
	// reserve reserves memory for a histogram of the series before it is decoded; nil reserves none.
	reserve func(sizeBytes int) error
}

// reset begins a request.
func (v *values) reset() {
	if cap(v.samples) > valuesKeepMax {
		v.samples = nil
	}
	clear(v.histograms)
	clear(v.exemplars)
	v.next()
	v.decoder.reset()
}

// next begins a series.
func (v *values) next() {
	v.samples, v.histograms, v.exemplars = v.samples[:0], v.histograms[:0], v.exemplars[:0]
	v.decoder.next()
}

// into sets the values of their series.
func (v *values) into(s *Series) {
	s.Samples, s.Histograms, s.Exemplars = v.samples, v.histograms, v.exemplars
}

// sample reads the Sample in b[pos:end].
func (v *values) sample(b []byte, pos, end int) error {
	var s Sample
	for pos < end {
		at := pos
		field, wire, next, err := tag(b, pos, end)
		if err != nil {
			return err
		}
		switch {
		case field == sampleValue:
			s.Value, pos, err = double(b, "a sample's value", wire, at, next, end)
		case field == sampleTime:
			s.TsMs, pos, err = integer(b, "a sample's timestamp", wire, at, next, end)
		case field == sampleStart && v.starts:
			s.StartMs, pos, err = integer(b, "a sample's start timestamp", wire, at, next, end)
		default:
			pos, err = skip(b, wire, next, end)
		}
		if err != nil {
			return err
		}
	}
	v.samples = append(v.samples, s)
	return nil
}

const (
	// histogramBytes is the memory of a decoded histogram besides its lists.
	histogramBytes = int(unsafe.Sizeof(histogram.FloatHistogram{}) + unsafe.Sizeof(Histogram{}))
	// decodedRatio is the largest ratio of the size of a decoded list to its size in the body. A bucket of one byte becomes an
	// int64.
	decodedRatio = 8
)

// histogram reads the Histogram in b[from:to].
func (v *values) histogram(b []byte, from, to int) error {
	if v.reserve != nil {
		if err := v.reserve(histogramBytes + decodedRatio*(to-from)); err != nil {
			return err
		}
	}
	h, err := v.decoder.decode(b, from, to, v.starts)
	if err == nil {
		v.histograms = append(v.histograms, h)
	}
	return err
}

// Field numbers of Exemplar in both versions.
const (
	exemplarLabels = 1 // labels, or references to them
	exemplarValue  = 2
	exemplarTime   = 3
)

// readExemplar reads the Exemplar in b[pos:end]. The function labels reads a field of labels, and returns where the next field
// begins.
func readExemplar(b []byte, pos, end int, labels func(wire, at, pos int) (next int, err error)) (e Exemplar, err error) {
	for pos < end {
		at := pos
		field, wire, next, err := tag(b, pos, end)
		if err != nil {
			return e, err
		}
		switch field {
		case exemplarLabels:
			pos, err = labels(wire, at, next)
		case exemplarValue:
			e.Value, pos, err = double(b, "an exemplar's value", wire, at, next, end)
		case exemplarTime:
			e.TsMs, pos, err = integer(b, "an exemplar's timestamp", wire, at, next, end)
		default:
			pos, err = skip(b, wire, next, end)
		}
		if err != nil {
			return e, err
		}
	}
	return e, nil
}

// exemplarBytesMax bounds the label bytes of an exemplar that are copied. The writer already rejects exemplars with far fewer
// bytes. A request of 2.0 may refer to a long symbol many times.
const exemplarBytesMax = 4096

// beginExemplar begins the labels of an exemplar.
func (v *values) beginExemplar() {
	v.builder.Reset()
	v.labelBytes = 0
}

// exemplarLabel adds a label to the exemplar. It cuts labels off at the bound; the writer rejects what is left.
func (v *values) exemplarLabel(name, value []byte) {
	name = name[:min(len(name), exemplarBytesMax)]
	value = value[:min(len(value), exemplarBytesMax)]
	if v.labelBytes > exemplarBytesMax {
		return
	}
	v.labelBytes += 1 + len(name) + len(value)
	v.builder.Add(string(name), string(value))
}

// addExemplar adds an exemplar with the labels in the builder.
func (v *values) addExemplar(e Exemplar) {
	v.builder.Sort()
	e.Labels = v.builder.Labels()
	v.exemplars = append(v.exemplars, e)
}
