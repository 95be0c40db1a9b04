package ingest

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"

	"halite/ingest/head"
	"halite/ingest/remotewrite"
	"halite/ingest/wal/record"
	"halite/keyschema/exemplar"
	"halite/keyschema/histchunk"
)

// exemplarRunesMax bounds the names and values of an exemplar's labels together, as OpenMetrics and Prometheus do.
const exemplarRunesMax = 128

// kinds holds the samples of a request that are not floats. They have ref 0 until their series is known.
type kinds struct {
	starts     []head.Sample
	histograms []head.Record
	exemplars  []head.Record
	data       []byte // of the records
	times      []head.Sample
	encoder    record.EncodedEncoder
}

// kindsKeepMax is the largest size of encoded histograms and exemplars whose memory the next request reuses.
const kindsKeepMax = 4 << 20

func (k *kinds) reset() {
	clear(k.histograms)
	clear(k.exemplars)
	if cap(k.data) > kindsKeepMax {
		*k = kinds{}
	}
	k.starts, k.histograms, k.exemplars, k.data = k.starts[:0], k.histograms[:0], k.exemplars[:0], k.data[:0]
}

// taken counts the samples taken so far from a request, by kind.
type taken struct{ floats, starts, histograms, exemplars int }

func (r *Request) taken() taken {
	return taken{len(r.samples), len(r.kinds.starts), len(r.kinds.histograms), len(r.kinds.exemplars)}
}

// setRef gives the samples between two counts a ref.
func (r *Request) setRef(from, to taken, ref uint32) {
	for n := from.floats; n < to.floats; n++ {
		r.samples[n].Ref = ref
	}
	for n := from.starts; n < to.starts; n++ {
		r.kinds.starts[n].Ref = ref
	}
	for n := from.histograms; n < to.histograms; n++ {
		r.kinds.histograms[n].Ref = ref
	}
	for n := from.exemplars; n < to.exemplars; n++ {
		r.kinds.exemplars[n].Ref = ref
	}
}

// since counts the samples of each kind taken since an earlier count. Start times do not count.
func (t taken) since(from taken) Counts {
	return Counts{t.floats - from.floats, t.histograms - from.histograms, t.exemplars - from.exemplars}
}

// addStart adds the start time of the last sample. Like Prometheus, it accepts a start time later than the sample. 0 means
// that there is none.
func (r *Request) addStart(ref uint32, tsMs, startMs int64) {
	switch {
	case startMs == 0:
	case r.w.floatsOnly:
		r.omit(1, ReasonUnsupportedStart)
	default:
		r.kinds.starts = append(r.kinds.starts, head.Sample{Ref: ref, TsMs: tsMs, Value: float64(startMs)})
	}
}

// count is the number of samples and exemplars taken so far.
func (r *Request) count() int {
	return len(r.samples) + len(r.kinds.histograms) + len(r.kinds.exemplars)
}

// histogramMemory is the memory of the decoded histograms of a series. The next series of the request reuses it.
type histogramMemory struct{ seriesBytes, reservedBytes, maxBytes int }

// reserveHistogram reserves memory for a histogram of the current series. The error is ErrTooLarge or an *OverloadError.
func (r *Request) reserveHistogram(sizeBytes int) error {
	m := &r.histograms
	m.seriesBytes += sizeBytes
	moreBytes := m.seriesBytes - m.reservedBytes
	if moreBytes <= 0 {
		return nil
	}
	if m.seriesBytes > m.maxBytes {
		return fmt.Errorf("%w: the histograms of a series take more than %d bytes when decoded "+
			"(--ingest.max-decoded-histogram-bytes)", ErrTooLarge, m.maxBytes)
	}
	if err := r.w.admission.grow(moreBytes); err != nil {
		return err
	}
	m.reservedBytes += moreBytes
	r.sizeBytes += moreBytes
	return nil
}

// seriesError turns an error of the walker into a *BadRequestError. It leaves errors of reserveHistogram unchanged.
func seriesError(err error) error {
	var overload *OverloadError
	if errors.Is(err, ErrTooLarge) || errors.As(err, &overload) {
		return err
	}
	return &BadRequestError{err}
}

// addRecords adds the histograms and exemplars of a series. s.Labels are set if ref is 0.
func (r *Request) addRecords(s *remotewrite.Series, ref uint32) {
	if r.w.floatsOnly {
		if n := len(s.Histograms); n > 0 {
			r.reject(n, ref, s.Labels, rejection{ReasonUnsupportedHist, "native histograms are unsupported in mode direct"})
		}
		if n := len(s.Exemplars); n > 0 {
			r.rejectExemplars(n, ref, s.Labels, rejection{ReasonUnsupportedExemplar, "exemplars are unsupported in mode direct"})
		}
		return
	}
	for n := range s.Histograms {
		r.addHistogram(ref, s.Labels, &s.Histograms[n])
	}
	for n := range s.Exemplars {
		r.addExemplar(ref, s.Labels, exemplar.Exemplar(s.Exemplars[n]))
	}
}

// addHistogram adds a histogram and its start time. If ref is 0, fields are the label fields of the series.
func (r *Request) addHistogram(ref uint32, fields []byte, h *remotewrite.Histogram) {
	if why := r.badTime(ref, fields, h.TsMs); why.rejects() {
		r.reject(1, ref, fields, why)
		return
	}
	if why := r.histogramExpired(ref, fields, h.TsMs); why.rejects() {
		r.reject(1, ref, fields, why)
		return
	}
	s := histchunk.Sample{H: h.H, FH: h.FH} // log and head store the time outside the record
	if err := reduceSchema(s); err != nil {
		r.reject(1, ref, fields, rejection{ReasonHistogramInvalid, err.Error()})
		return
	}
	from := len(r.kinds.data)
	r.kinds.data = histchunk.AppendRecord(r.kinds.data, s)
	data := r.kinds.data[from:len(r.kinds.data):len(r.kinds.data)]
	if most := r.w.limits.HistogramBytesMax; len(data) > most {
		r.kinds.data = r.kinds.data[:from]
		r.reject(1, ref, fields, tooLong(ReasonHistogramTooLarge, "histogram-bytes", most, "the histogram has %d bytes", len(data)))
		return
	}
	r.kinds.histograms = append(r.kinds.histograms, head.Record{Ref: ref, TsMs: h.TsMs, Data: data})
	r.addStart(ref, h.TsMs, h.StartMs)
}

// reduceSchema checks a histogram and reduces its schema to one that PromQL can evaluate, as Prometheus's receiver does. It
// refuses schemas that are coarser than PromQL's coarsest.
func reduceSchema(s histchunk.Sample) error {
	if err := histchunk.Validate(s); err != nil {
		return err
	}
	schema, reduce := int32(0), (func(int32) error)(nil)
	if s.H != nil {
		schema, reduce = s.H.Schema, s.H.ReduceResolution
	} else {
		schema, reduce = s.FH.Schema, s.FH.ReduceResolution
	}
	switch {
	case histogram.IsValidSchema(schema):
		return nil
	case schema < histogram.ExponentialSchemaMin:
		return histogram.InvalidSchemaError(schema)
	}
	if err := reduce(histogram.ExponentialSchemaMax); err != nil {
		return err
	}
	return histchunk.Validate(s)
}

// addExemplar adds an exemplar. If ref is 0, fields are the label fields of the series.
func (r *Request) addExemplar(ref uint32, fields []byte, e exemplar.Exemplar) {
	why := r.badTime(ref, fields, e.TsMs)
	if !why.rejects() {
		why = exemplarFault(e.Labels)
	}
	if why.rejects() {
		r.rejectExemplars(1, ref, fields, why)
		return
	}
	tsMs, from := e.TsMs, len(r.kinds.data)
	e.TsMs = 0
	r.kinds.data = exemplar.AppendRecord(r.kinds.data, e)
	data := r.kinds.data[from:len(r.kinds.data):len(r.kinds.data)]
	r.kinds.exemplars = append(r.kinds.exemplars, head.Record{Ref: ref, TsMs: tsMs, Data: data})
}

// badTime returns the rejection of a sample's time. It returns none if the time is acceptable.
func (r *Request) badTime(ref uint32, fields []byte, tsMs int64) rejection {
	if tsMs >= r.minMs && tsMs <= r.maxMs {
		return rejection{}
	}
	return r.timeFault(ref, fields, tsMs)
}

// histogramExpired returns the rejection of a histogram's time if the metric keeps histograms for less time than floats.
func (r *Request) histogramExpired(ref uint32, fields []byte, tsMs int64) rejection {
	if tsMs >= r.histogramsMs {
		return rejection{}
	}
	beginMs := r.histogramCutoffs.Ms(r.metric(ref, fields))
	if tsMs >= beginMs {
		return rejection{}
	}
	return rejectf(ReasonBeforeRetention, "timestamp %d ms lies before the retention of native histograms, which begins at %d ms",
		tsMs, beginMs)
}

// rejectExemplars is reject for exemplars. For remote write 1.0 it only counts them, because a sender would read the
// rejection as a rejected sample.
func (r *Request) rejectExemplars(n int, ref uint32, fields []byte, why rejection) {
	if r.input.Body != nil && r.input.Version == V1 {
		r.omit(n, why.reason)
		return
	}
	r.reject(n, ref, fields, why)
}

// omit counts exemplars, start times or metadata that the writer skips without a rejection.
func (r *Request) omit(n int, reason string) {
	r.w.metrics.rejected.WithLabelValues(reason).Add(float64(n))
	if r.result.Omitted == nil {
		r.result.Omitted = make(map[string]int)
	}
	r.result.Omitted[reason] += n
}

// exemplarFault returns the rejection of an exemplar's labels.
func exemplarFault(ls labels.Labels) (why rejection) {
	runes, previous := 0, ""
	ls.Range(func(l labels.Label) {
		switch {
		case why.rejects():
			return
		case l.Name == "":
			why = rejectf(ReasonEmptyLabelName, "the exemplar's label with value %q has an empty name", shorten(l.Value))
		case !utf8.ValidString(l.Name) || !utf8.ValidString(l.Value):
			why = rejectf(ReasonInvalidUTF8, "label %q of the exemplar is not valid UTF-8", shorten(l.Name))
		case l.Name == previous:
			why = rejectf(ReasonDuplicateLabel, "label %q of the exemplar appears twice", shorten(l.Name))
		}
		previous = l.Name
		runes += utf8.RuneCountInString(l.Name) + utf8.RuneCountInString(l.Value)
	})
	if !why.rejects() && runes > exemplarRunesMax {
		return rejectf(ReasonExemplarTooLong, "the exemplar's labels have %d characters, %d allowed", runes, exemplarRunesMax)
	}
	return why
}
