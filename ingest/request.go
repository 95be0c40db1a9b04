package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"

	"halite/ingest/batch"
	"halite/ingest/head"
	"halite/ingest/relabel"
	"halite/ingest/remotewrite"
	"halite/ingest/tenantlimits"
	"halite/ingest/wal"
	"halite/ingest/wal/record"
	"halite/keyschema"
	"halite/storage/index"
	"halite/storage/principal"
)

// Input is the data of a request: the snappy-compressed Body of remote write or, if Parse is set, the series of Parse.
type Input struct {
	Body    []byte
	Version Version
	// Parse adds the series of another protocol to a batch. An error of Parse makes the request a *BadRequestError. SizeBytes is
	// the memory that Parse uses besides the batch.
	Parse     func(*batch.Batch) error
	SizeBytes int
}

// Version is the version of remote write that a body follows.
type Version uint8

const (
	// V1 is remote write 1.0: a prometheus.WriteRequest.
	V1 Version = iota
	// V2 is remote write 2.0: an io.prometheus.write.v2.Request.
	V2
)

// unknownSeries is a series of a request that is not in the registry. Its samples wait with ref 0.
type unknownSeries struct {
	key      head.Key
	fields   []byte
	offset   int   // offset of the message in the body
	from, to taken // range of its samples in the request
}

// Request is the state of one write; pooled. Begin admits it. Read decodes it, finds known series and creates the others.
// Then the caller stores the samples, and Finish returns the result.
type Request struct {
	w     *Writer
	input Input
	reservation
	admitted     bool     // Leave has not freed the reservation
	space        head.Key // separates the keys of the tenant's series from all others; zero for the default tenant
	histograms   histogramMemory
	minMs, maxMs int64              // every metric accepts timestamps in this range
	cutoffs      *keyschema.Cutoffs // of metrics that keep samples older than minMs
	aheadMs      int64              // time by which maxMs lies ahead of the clock
	// histogramsMs is minMs for native histograms. The first histogram that needs histogramCutoffs computes them.
	histogramsMs     int64
	histogramCutoffs *keyschema.Cutoffs

	walker   remotewrite.Walker
	v2       requestV2
	kinds    kinds
	known    *head.Registry // series by their labels as sent
	rules    *relabel.Rules // nil if there are none
	dropped  []int          // dropped samples by rule
	replicas replicas
	cursor   head.Cursor
	lookups  lookups
	samples  []head.Sample
	unknown  []unknownSeries
	metadata []remotewrite.Metadata
	batch    batch.Batch
	fields   []byte        // label fields of series of the batch
	merging  []head.Sample // scratch of countMerged
	series   int

	pairs   []prompb.Label
	builder labels.ScratchBuilder
	labels  labels.Labels
	changed labels.Builder // labels changed by the rules
	created []createdSeries
	// pending has the refs of created series that the registry does not have yet. A request may repeat a new series.
	pending map[head.Key]uint32
	encoded []byte

	stripes head.StripeSorter
	opened  []head.OpenedRow
	buckets []int64 // scratch of NoteChanges
	encoder record.SamplesEncoder
	payload []byte
	last    wal.Position
	logged  bool

	result Result
}

var requests = sync.Pool{New: func() any {
	r := &Request{builder: labels.NewScratchBuilder(16), pending: map[head.Key]uint32{}}
	r.walker.Reserve(r.reserveHistogram)
	r.v2.walker.Reserve(r.reserveHistogram)
	return r
}}

// requestKeepMax is the largest number of samples whose memory the next request reuses.
const requestKeepMax = 1 << 17

// reservation is what a request has reserved, and for which tenant.
type reservation struct {
	tenantPrefix   string               // of the stored names of metrics
	tenant         *tenantlimits.Tenant // nil on a server without tenants
	sizeBytes      int                  // of the body and of the decoded histograms of a series
	slot           tenantlimits.Slot
	cpu            *principal.CPUSlot // held until Leave
	overRate       bool               // a dry run of the limit of samples per second would have refused the request
	overTenantRate bool               // like overRate, for the tenant's limit
}

// Begin admits a request. The caller must call Release. After an error there is no request.
func (w *Writer) Begin(ctx context.Context, in Input) (*Request, error) {
	if err := w.Enter(); err != nil {
		return nil, err
	}
	w.metrics.requests.Inc()
	reserved, err := w.reserve(ctx, in)
	if err != nil {
		w.Exit()
		return nil, w.admission.classify(err)
	}
	r := requests.Get().(*Request)
	r.reset(w, in)
	r.reservation, r.admitted = reserved, true
	r.replicas.ctx = ctx
	r.histograms = histogramMemory{maxBytes: w.limits.histogramsBytesMax(r.sizeBytes)}
	return r, nil
}

// reserve checks the size of a request and the rate of samples. Then it reserves what the request needs.
func (w *Writer) reserve(ctx context.Context, in Input) (res reservation, err error) {
	sender := principal.From(ctx)
	if sender != nil && len(sender.Tenants) > 0 {
		res.tenantPrefix = sender.Prefix()
		res.tenant = w.tenants.ForPrefix(res.tenantPrefix)
	}
	if res.sizeBytes = in.SizeBytes; in.Parse == nil {
		if res.sizeBytes, err = w.admission.decodedBytes(in.Body); err != nil {
			return res, err
		}
	}
	if res.overRate, err = w.admission.checkRate(w.now(), w.admission.rate.Check); err != nil {
		return res, err
	}
	if res.overTenantRate, err = w.admission.checkRate(w.now(), res.tenant.CheckRate); err != nil {
		return res, err
	}
	if res.slot, err = w.admission.admit(ctx, res.tenant, res.sizeBytes); err != nil {
		return res, err
	}
	if res.cpu, err = sender.AcquireCPU(ctx); err != nil {
		w.admission.leave(res.sizeBytes)
		res.slot.Leave()
		res.slot.Done()
		return res, err
	}
	return res, nil
}

func (r *Request) reset(w *Writer, in Input) {
	r.w, r.input = w, in
	r.samples, r.unknown, r.metadata, r.fields = r.samples[:0], r.unknown[:0], r.metadata[:0], r.fields[:0]
	r.lookups.n = 0
	r.kinds.reset()
	r.series, r.last, r.logged, r.result = 0, wal.Position{}, false, Result{}
	nowMs := w.now().UnixMilli()
	r.aheadMs = w.limits.AheadMax.Milliseconds()
	r.maxMs = min(nowMs+r.aheadMs, keyschema.TimeMaxMs)
	ages := w.retention.Snapshot()
	r.minMs = ages.Longest().CutoffMs(nowMs)
	if r.cutoffs = ages.Since(nowMs, r.minMs); r.cutoffs != nil {
		r.minMs = r.cutoffs.LatestMs()
	}
	r.histogramCutoffs = ages.Tier(keyschema.NativeHistograms).At(nowMs)
	r.histogramsMs = r.histogramCutoffs.LatestMs()
}

// hash returns the key of a series: the hash of its labels as sent. Equal bytes from two tenants have different keys.
func (r *Request) hash(fields []byte) head.Key {
	return head.InSpace(r.known.Hash(fields), r.space)
}

// shown returns stored labels without the tenant, as the sender knows them.
func (r *Request) shown(stored labels.Labels) labels.Labels {
	_, name := keyschema.SplitTenant(stored.Get(model.MetricNameLabel))
	return labels.NewBuilder(stored).Set(model.MetricNameLabel, name).Labels()
}

// Leave frees the slot and the memory of a request. The request now only waits for its durability.
func (r *Request) Leave() {
	if r.admitted {
		r.admitted = false
		r.w.admission.leave(r.sizeBytes)
		r.cpu.Release()
		r.slot.Leave()
	}
}

// Release ends a request. The next request reuses its memory.
func (r *Request) Release() {
	r.Leave()
	r.slot.Done()
	r.w.Exit()
	r.w, r.input, r.known, r.rules, r.cursor, r.replicas.ctx = nil, Input{}, nil, nil, head.Cursor{}, nil
	r.reservation = reservation{}
	r.walker.Reset(nil)
	r.v2.release()
	r.batch.Reset(batch.Bounds{})
	clear(r.unknown)
	clear(r.metadata)
	clear(r.pairs)
	if cap(r.samples) <= requestKeepMax && cap(r.unknown) <= requestKeepMax {
		requests.Put(r)
	}
}

// Finish returns the result of a request. err is the error that ended the request, or nil if the request is durable.
func (r *Request) Finish(err error) (Result, error) {
	if err != nil {
		return Result{}, r.w.admission.classify(err)
	}
	r.w.metrics.accepted.Add(float64(r.result.Accepted))
	r.countDropped()
	if r.result.Histograms+r.result.Exemplars > 0 {
		r.w.metrics.histograms.Add(float64(r.result.Histograms))
		r.w.metrics.exemplars.Add(float64(r.result.Exemplars))
	}
	return r.result, nil
}

// appendLog appends a record to the log, if there is one.
func (r *Request) appendLog(kind byte, payload []byte) error {
	if r.w.log == nil {
		return nil
	}
	pos, err := r.w.log.Append(kind, payload)
	if err != nil {
		return err
	}
	r.last, r.logged = pos, true
	return nil
}

// Accept counts samples as stored.
func (r *Request) Accept(samples int) { r.result.Accepted += samples }

// Samples returns the samples of the request after Read. Samples with ref 0 are rejected.
func (r *Request) Samples() []head.Sample { return r.samples }

// readBatch parses the request into a batch and reads the batch. It stores nothing yet.
func (r *Request) readBatch() error {
	b := &r.batch
	b.Reset(batch.Bounds{ItemsMax: r.w.limits.RequestSamplesMax, Reserve: r.reserve})
	if err := r.input.Parse(b); errors.Is(err, batch.ErrTooLarge) {
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	} else if err != nil {
		return seriesError(err)
	}
	if err := r.w.admission.checkSamples(b.Count()); err != nil {
		return err
	}
	r.metadata = append(r.metadata, b.Descriptions()...)
	for _, left := range b.Rejections() {
		if left.Silent {
			r.omit(left.Count, left.Reason)
			continue
		}
		if r.result.First == "" {
			r.result.First = left.Detail
		}
		r.reject(left.Count, 0, nil, rejection{left.Reason, left.Detail})
	}
	for {
		if !b.Next() {
			if r.lookUp(b) {
				continue
			}
			return nil
		}
		r.series++
		if err := r.readBatchSeries(b); err != nil {
			return err
		}
	}
}

// reserve reserves more memory until Leave.
func (r *Request) reserve(moreBytes int) error {
	if err := r.w.admission.grow(moreBytes); err != nil {
		return err
	}
	r.sizeBytes += moreBytes
	return nil
}

// readBatchSeries reads one series of a batch.
func (r *Request) readBatchSeries(b *batch.Batch) error {
	s := b.Series()
	key := r.hash(s.Key)
	if len(s.Samples) == 1 && len(s.Histograms)+len(s.Exemplars) == 0 && s.Samples[0].StartMs == 0 &&
		r.postpone(b, key, s.Samples[0]) {
		return nil
	}
	if r.lookUp(b) {
		r.series-- // Rewind: the batch will return this series again
		return nil
	}
	series := remotewrite.Series{Samples: s.Samples, Histograms: s.Histograms, Exemplars: s.Exemplars}
	ref, known := r.cursor.Find(key)
	if !known {
		from := len(r.fields)
		fields, err := b.AppendFields(r.fields, s.Key)
		if err != nil {
			return &BadRequestError{err}
		}
		r.fields = fields
		series.Labels = fields[from:len(fields):len(fields)]
	}
	r.addValues(&series, key, ref, known)
	return nil
}

// SamplesInput returns an Input that holds the samples and the descriptions of metrics.
func SamplesInput(samples []Sample, descriptions ...remotewrite.Metadata) Input {
	return Input{Parse: func(b *batch.Batch) error {
		for _, m := range descriptions {
			b.Metadata(m)
		}
		var fields []byte
		for n := range samples {
			s := &samples[n]
			fields = remotewrite.AppendFields(fields[:0], s.Labels)
			if err := b.Begin(fields); err != nil {
				return err
			}
			if s.H == nil && s.FH == nil {
				b.Sample(remotewrite.Sample{TsMs: s.TsMs, StartMs: s.StartMs, Value: s.Value})
			} else {
				b.Histogram(remotewrite.Histogram{TsMs: s.TsMs, StartMs: s.StartMs, H: s.H, FH: s.FH})
			}
			for _, e := range s.Exemplars {
				b.Exemplar(remotewrite.Exemplar(e))
			}
		}
		return nil
	}}
}

// countMerged counts the floats that a later sample of the same series and time in the request replaces.
func (r *Request) countMerged() {
	order := r.merging[:0]
	for n := range r.samples {
		if s := &r.samples[n]; s.Ref != 0 {
			order = append(order, head.Sample{Ref: s.Ref, TsMs: s.TsMs})
		}
	}
	slices.SortFunc(order, func(a, b head.Sample) int { return cmp.Or(cmp.Compare(a.Ref, b.Ref), cmp.Compare(a.TsMs, b.TsMs)) })
	kept := len(slices.CompactFunc(order, func(a, b head.Sample) bool { return a.Ref == b.Ref && a.TsMs == b.TsMs }))
	if merged := len(order) - kept; merged > 0 {
		r.omit(merged, ReasonMerged)
	}
	r.merging = order[:0]
}

// readBody reads a decoded body. It stores nothing yet.
func (r *Request) readBody(body []byte) error {
	w := &r.walker
	w.Reset(body)
	for {
		kind := w.Next()
		if kind != remotewrite.TimeSeries && r.lookUp(w) {
			continue
		}
		switch kind {
		case remotewrite.TimeSeries:
			r.series++
			if err := r.w.admission.checkSamples(r.series); err != nil {
				return err
			}
			if err := r.readSeries(w); err != nil {
				return err
			}
		case remotewrite.MetricMetadata:
			m, err := w.Metadata()
			if err != nil {
				return &BadRequestError{err}
			}
			r.metadata = append(r.metadata, m)
		case remotewrite.End:
			if err := w.Err(); err != nil {
				return &BadRequestError{err}
			}
			return nil
		}
	}
}

func (r *Request) readSeries(w *remotewrite.Walker) error {
	guess, sample, guessed := w.FastSample()
	var key head.Key
	if guessed {
		key = r.hash(guess)
		if r.postpone(w, key, sample) {
			return nil
		}
	}
	if r.lookUp(w) {
		r.series-- // the walker will return it again
		return nil
	}
	if guessed {
		if ref, known := r.cursor.Find(key); known {
			r.addKnown(ref, sample)
			return nil
		}
	}
	r.histograms.seriesBytes = 0
	s, err := w.Series()
	if err != nil {
		return seriesError(err)
	}
	if err := r.w.admission.checkSamples(r.count() + s.Count()); err != nil {
		return err
	}
	ref, known := uint32(0), false
	if !guessed || len(guess) != len(s.Labels) { // otherwise the registry does not have the key
		key = r.hash(s.Labels)
		ref, known = r.cursor.Find(key)
	}
	r.addValues(&s, key, ref, known)
	return nil
}

// addValues adds the samples of a series. The caller sets s.Labels if the series is new.
func (r *Request) addValues(s *remotewrite.Series, key head.Key, ref uint32, known bool) {
	if known && r.rules != nil {
		n := Counts{Samples: len(s.Samples), Histograms: len(s.Histograms), Exemplars: len(s.Exemplars)}
		if !r.admits(ref, r.cursor.Tag(), n) {
			return
		}
	}
	from := r.taken()
	for _, sample := range s.Samples {
		r.appendSample(ref, s.Labels, sample)
	}
	if len(s.Histograms)+len(s.Exemplars) > 0 {
		r.addRecords(s, ref)
	}
	if !known {
		r.unknown = append(r.unknown, unknownSeries{
			key: key, fields: s.Labels, offset: s.Offset, from: from, to: r.taken(),
		})
	}
}

// addKnown adds the sample of a known series.
func (r *Request) addKnown(ref uint32, s remotewrite.Sample) {
	if r.rules != nil && !r.admits(ref, r.cursor.Tag(), Counts{Samples: 1}) {
		return
	}
	r.appendSample(ref, nil, s)
}

// appendSample appends a sample if its time is acceptable. If ref is 0, fields are the label fields of the series.
func (r *Request) appendSample(ref uint32, fields []byte, s remotewrite.Sample) {
	if s.TsMs < r.minMs || s.TsMs > r.maxMs {
		if why := r.timeFault(ref, fields, s.TsMs); why.rejects() {
			r.reject(1, ref, fields, why)
			return
		}
	}
	r.samples = append(r.samples, head.Sample{Ref: ref, TsMs: s.TsMs, Value: s.Value})
	if s.StartMs != 0 {
		r.addStart(ref, s.TsMs, s.StartMs)
	}
}

// timeFault returns the rejection of a timestamp outside minMs and maxMs. It returns none if the metric's longer retention
// covers the time.
func (r *Request) timeFault(ref uint32, fields []byte, tsMs int64) rejection {
	switch {
	case tsMs < 0:
		return rejectf(ReasonBefore1970, "timestamp %d ms lies before 1970", tsMs)
	case tsMs > r.maxMs:
		return rejectf(ReasonTooFarAhead,
			"timestamp %d ms is too far in the future: the maximum is %d ms, which is %d ms ahead of the clock", tsMs, r.maxMs,
			r.aheadMs)
	}
	beginMs := r.minMs
	if r.cutoffs != nil {
		beginMs = r.cutoffs.Ms(r.metric(ref, fields))
	}
	if tsMs >= beginMs {
		return rejection{}
	}
	return rejectf(ReasonBeforeRetention, "timestamp %d ms lies before the retention, which begins at %d ms",
		tsMs, beginMs)
}

// metric returns the metric of a series. If ref is 0, fields are the label fields of the series.
func (r *Request) metric(ref uint32, fields []byte) string {
	if ref != 0 {
		return r.w.index.Metric(index.Ref(ref))
	}
	pairs, err := remotewrite.AppendLabels(r.pairs[:0], fields)
	if err != nil {
		return "" // the series will be refused
	}
	r.pairs = pairs
	for i := range pairs {
		if pairs[i].Name == model.MetricNameLabel {
			return r.tenantPrefix + pairs[i].Value
		}
	}
	return ""
}

// reject counts n samples as not stored. It describes the first rejection of a request.
func (r *Request) reject(n int, ref uint32, fields []byte, why rejection) {
	r.w.metrics.rejected.WithLabelValues(why.reason).Add(float64(n))
	if r.result.First == "" {
		var series string
		if ref != 0 {
			series = describeLabels(r.shown(r.w.index.Labels(index.Ref(ref))))
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

// lookups holds series of a request that came in an unexpected order. They wait for a common look-up. Their samples are the
// last samples of the request, with ref 0.
type lookups struct {
	keys [head.FindBatch]head.Key
	refs [head.FindBatch]uint32
	tags [head.FindBatch]uint32
	n    int
	mark int // mark of the first series' message
}

// rewinder is a walker of either version of remote write.
type rewinder interface {
	Mark() int
	Rewind(mark int)
}

// postpone takes the sample of a series for a later look-up and reports whether it did. It returns false if the order is as
// expected, or if the sample's time may be wrong. Then the caller finds the series itself.
func (r *Request) postpone(w rewinder, key head.Key, s remotewrite.Sample) bool {
	if !r.cursor.Lost() || s.TsMs < r.minMs || s.TsMs > r.maxMs {
		return false
	}
	l := &r.lookups
	if l.n == 0 {
		l.mark = w.Mark()
	}
	l.keys[l.n] = key
	l.n++
	r.samples = append(r.samples, head.Sample{TsMs: s.TsMs, Value: s.Value})
	if l.n == len(l.keys) {
		r.lookUp(w)
	}
	return true
}

// lookUp gives the waiting samples their refs. If a series is unknown, lookUp drops them, rewinds the walker to the first
// one's message, and returns true. The caller then reads them one by one.
func (r *Request) lookUp(w rewinder) (rewound bool) {
	l := &r.lookups
	n := l.n
	l.n = 0
	if n == 0 {
		return false
	}
	first := len(r.samples) - n
	if !r.cursor.FindAll(l.keys[:n], l.refs[:n], l.tags[:n]) {
		r.samples = r.samples[:first]
		r.series -= n
		w.Rewind(l.mark)
		return true
	}
	for i := range n {
		if r.rules == nil || r.admits(l.refs[i], l.tags[i], Counts{Samples: 1}) {
			r.samples[first+i].Ref = l.refs[i]
		}
	}
	return false
}
