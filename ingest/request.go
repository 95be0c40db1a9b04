package ingest

import (
	"sync"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"

	"halite/ingest/head"
	"halite/ingest/remotewrite"
	"halite/ingest/wal"
	"halite/keyschema"
	"halite/storage/index"
)

// recordSamplesMax bounds the samples of one log record, far below what a payload may hold.
const recordSamplesMax = 1 << 16

// pending is a series of a request that the registry does not know. Its samples wait with ref 0.
type pending struct {
	fields   []byte
	offset   int // of the message in the body
	from, to int // extent of its samples in request.samples
}

// request is the working memory of one write; pooled. Its phases are: read the body and find known series, register the
// unknown ones, store stripe by stripe.
type request struct {
	i            *intake
	to           sink
	minMs, maxMs int64              // timestamps accepted of all metrics
	cutoffs      *keyschema.Cutoffs // of metrics that are kept longer than from minMs on
	aheadMs      int64              // maxMs is the clock plus this

	walker  remotewrite.Walker
	cursor  head.Cursor
	lookups lookups
	samples []head.Sample
	pending []pending
	news    []remotewrite.Metadata
	fields  []byte // label fields made from Write's samples
	series  int

	pairs   []prompb.Label
	builder labels.ScratchBuilder
	labels  labels.Labels
	fresh   []freshSeries
	encoded []byte

	batch   *throughBatch // of a Through
	striped []head.Sample
	starts  []int
	spans   []int64 // of noteChanges
	encoder wal.SamplesEncoder
	payload []byte
	last    wal.Position
	logged  bool

	result Result
}

var requests = sync.Pool{New: func() any {
	return &request{builder: labels.NewScratchBuilder(16)}
}}

// requestKeepMax is the number of samples above which a request's memory is not kept for the next.
const requestKeepMax = 1 << 17

func (i *intake) newRequest(to sink) *request {
	r := requests.Get().(*request)
	r.i, r.to = i, to
	r.cursor = i.registry.Cursor()
	r.samples, r.pending, r.news, r.fields = r.samples[:0], r.pending[:0], r.news[:0], r.fields[:0]
	r.lookups.n = 0
	r.series, r.last, r.logged, r.result = 0, wal.Position{}, false, Result{}
	nowMs := i.now().UnixMilli()
	r.minMs, r.aheadMs = 0, i.limits.AheadMax.Milliseconds()
	r.maxMs = min(nowMs+r.aheadMs, timestampMaxMs)
	if i.retention > 0 {
		r.minMs = max(0, nowMs-i.retention.Milliseconds())
	}
	if r.cutoffs = i.ages.Since(nowMs, r.minMs); r.cutoffs != nil {
		r.minMs = r.cutoffs.LatestMs()
	}
	return r
}

func (r *request) release() {
	r.i, r.to, r.batch = nil, nil, nil
	r.walker.Reset(nil)
	clear(r.pending)
	clear(r.news)
	clear(r.pairs)
	if cap(r.samples) <= requestKeepMax && cap(r.pending) <= requestKeepMax {
		requests.Put(r)
	}
}

// read walks a decoded body: nothing is stored, and nothing of a malformed body will be.
func (r *request) read(body []byte) error {
	w := &r.walker
	w.Reset(body)
	for {
		kind := w.Next()
		if kind != remotewrite.TimeSeries && r.lookUp(w) {
			continue
		}
		switch kind {
		case remotewrite.TimeSeries:
			if r.series++; r.series > r.i.limits.RequestSamplesMax {
				return tooManySamples(r.i.limits.RequestSamplesMax)
			}
			if err := r.readSeries(w); err != nil {
				return err
			}
		case remotewrite.MetricMetadata:
			m, err := w.Metadata()
			if err != nil {
				return &BadRequestError{err}
			}
			r.news = append(r.news, m)
		case remotewrite.End:
			if err := w.Err(); err != nil {
				return &BadRequestError{err}
			}
			return nil
		}
	}
}

func (r *request) readSeries(w *remotewrite.Walker) error {
	guess, sample, guessed := w.FastSample()
	if guessed && r.postpone(w, guess, sample) {
		return nil
	}
	if r.lookUp(w) {
		r.series-- // it will come again
		return nil
	}
	if guessed {
		if ref, known := r.cursor.Find(r.i.registry.Hash(guess)); known {
			r.take(ref, nil, sample)
			return nil
		}
	}
	s, err := w.Series()
	if err != nil {
		return &BadRequestError{err}
	}
	if len(r.samples)+len(s.Samples) > r.i.limits.RequestSamplesMax {
		return tooManySamples(r.i.limits.RequestSamplesMax)
	}
	r.takeSeries(s, guessed && len(guess) == len(s.Labels))
	return nil
}

// takeSeries finds a walked series and takes its samples. searched says that the registry was just asked for it.
func (r *request) takeSeries(s remotewrite.Series, searched bool) {
	var ref uint32
	known := false
	if !searched {
		ref, known = r.cursor.Find(r.i.registry.Hash(s.Labels))
	}
	if s.Exemplars > 0 {
		r.i.metrics.rejected.WithLabelValues(ReasonUnsupportedExemplar).Add(float64(s.Exemplars))
	}
	if s.Histograms > 0 {
		r.reject(s.Histograms, ref, s.Labels, rejection{ReasonUnsupportedHist, "native histograms are not supported"})
	}
	from := len(r.samples)
	for _, sample := range s.Samples {
		r.take(ref, s.Labels, sample)
	}
	if !known {
		r.pending = append(r.pending, pending{fields: s.Labels, offset: s.Offset, from: from, to: len(r.samples)})
	}
}

// take keeps a sample if its time is acceptable. fields are the series' label fields if ref is not known yet.
func (r *request) take(ref uint32, fields []byte, s remotewrite.Sample) {
	if s.TsMs < r.minMs || s.TsMs > r.maxMs {
		if why, bad := r.timeFault(ref, fields, s.TsMs); bad {
			r.reject(1, ref, fields, why)
			return
		}
	}
	r.samples = append(r.samples, head.Sample{Ref: ref, TsMs: s.TsMs, Value: s.Value})
}

// timeFault says what is wrong with a timestamp outside of what is accepted of all metrics, if anything is.
func (r *request) timeFault(ref uint32, fields []byte, tsMs int64) (why rejection, bad bool) {
	switch {
	case tsMs < 0:
		return rejectf(ReasonBefore1970, "timestamp %d ms lies before 1970", tsMs), true
	case tsMs > r.maxMs:
		return rejectf(ReasonTooFarAhead,
			"timestamp %d ms is too far ahead: up to %d ms, %d ms ahead of the clock, is allowed", tsMs, r.maxMs, r.aheadMs), true
	}
	beginMs := r.minMs
	if r.cutoffs != nil {
		beginMs = r.cutoffs.Ms(r.metric(ref, fields))
	}
	if tsMs >= beginMs {
		return rejection{}, false
	}
	return rejectf(ReasonBeforeRetention, "timestamp %d ms lies before the retention, which begins at %d ms",
		tsMs, beginMs), true
}

// metric is that of a series; fields are its label fields if ref is not known yet.
func (r *request) metric(ref uint32, fields []byte) string {
	if ref != 0 {
		return r.i.index.Metric(index.Ref(ref))
	}
	pairs, err := remotewrite.AppendLabels(r.pairs[:0], fields)
	if err != nil {
		return "" // the series will be refused
	}
	r.pairs = pairs
	for i := range pairs {
		if pairs[i].Name == model.MetricNameLabel {
			return pairs[i].Value
		}
	}
	return ""
}

// reject counts n samples as not stored; the first rejection of a request is described.
func (r *request) reject(n int, ref uint32, fields []byte, why rejection) {
	r.i.metrics.rejected.WithLabelValues(why.reason).Add(float64(n))
	if r.result.First == "" {
		var series string
		if ref != 0 {
			series = describeLabels(r.i.index.Labels(index.Ref(ref)))
		} else if pairs, err := remotewrite.AppendLabels(nil, fields); err == nil {
			series = describe(pairs)
		}
		r.result.First = "series " + series + ": " + why.reason + ": " + why.detail
	}
	if n == 0 {
		return
	}
	if r.result.Reasons == nil {
		r.result.Reasons = make(map[string]int)
	}
	r.result.Rejected += n
	r.result.Reasons[why.reason] += n
}

// stripe sorts the samples by stripe, keeping their order within each; those without a ref are left out.
func (r *request) stripe(h *head.Head) {
	stripes := h.Stripes()
	if len(r.starts) != stripes+1 {
		r.starts = make([]int, stripes+1)
	}
	clear(r.starts)
	stored := 0
	for i := range r.samples {
		if ref := r.samples[i].Ref; ref != 0 {
			r.starts[h.Stripe(ref)]++
			stored++
		}
	}
	// From counts to ends; filling from the back turns the ends into starts.
	end := 0
	for i, n := range r.starts[:stripes] {
		end += n
		r.starts[i] = end
	}
	r.starts[stripes] = end
	if cap(r.striped) < stored {
		r.striped = make([]head.Sample, stored, max(stored, cap(r.samples)))
	}
	r.striped = r.striped[:stored]
	for i := len(r.samples) - 1; i >= 0; i-- {
		s := &r.samples[i]
		if s.Ref == 0 {
			continue
		}
		at := &r.starts[h.Stripe(s.Ref)]
		*at--
		r.striped[*at] = *s
	}
}

// Log implements head.Sink: it runs under a stripe's lock, so that the log has a series' samples in the head's order.
func (r *request) Log() (segment uint64, err error) {
	if err := r.to.appendLog(r, wal.KindSamples, r.payload); err != nil {
		return 0, err
	}
	return r.last.Segment, nil
}

// Touch implements head.Sink: the catalogue learns of the hour before the sample is acknowledged.
func (r *request) Touch(ref uint32, hour int64) { r.i.index.Touch(index.Ref(ref), hour) }

// timestampMaxMs is the last timestamp that a row key can name.
const timestampMaxMs = keyschema.HourMax*keyschema.HourMs + keyschema.HourMs - 1
