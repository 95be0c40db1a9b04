package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/prompb"

	"halite/ingest/hatracker"
	"halite/ingest/head"
	"halite/ingest/relabel"
	"halite/ingest/remotewrite"
	"halite/ingest/wal/record"
)

const (
	// seriesRecordBytes is the size at which a record of new series is complete.
	seriesRecordBytes = 1 << 20
	// aliasSlack bounds the encodings that the registry keeps beyond three per series: the canonical one, one of remote
	// write 2.0, and one more. Beyond the bound, labels are parsed with each request. So a sender that keeps varying its
	// encoding does not fill the memory.
	aliasSlack = 1024
)

// createdSeries is an encoding of a series and its ref. The registry gets it once the series is in the log.
type createdSeries struct {
	key head.Key
	ref uint32
	// log is the new number of the series in the log, 0 if it had one.
	log uint32
	// sent is set if key is the hash of the labels as sent, before rules changed or dropped them.
	sent bool
	tag  uint32 // of the sending replica
}

// createUnknown gives the unknown series their refs. It rejects the samples of series that break a rule. It runs before the
// request stores anything, because a malformed label field makes the whole body bad.
func (r *Request) createUnknown() error {
	if len(r.unknown) == 0 {
		return nil
	}
	for n := range r.unknown {
		if err := remotewrite.CheckLabels(r.unknown[n].fields); err != nil {
			var format *remotewrite.FormatError
			if errors.As(err, &format) {
				format.Offset += r.unknown[n].offset
			}
			return &BadRequestError{err}
		}
	}
	r.w.regMu.Lock()
	defer r.w.regMu.Unlock()
	r.created, r.encoded = r.created[:0], r.encoded[:0]
	clear(r.pending)
	for n := range r.unknown {
		p := &r.unknown[n]
		series, err := r.register(p)
		if err != nil {
			r.dropSeries()
			return err
		}
		switch {
		case !r.admits(series.ref, series.tag, p.to.since(p.from)): // counted
		case series.ref == 0:
			r.rejectUnknown(p, series.why)
		default:
			r.setRef(p.from, p.to, series.ref)
		}
		if len(r.encoded) >= seriesRecordBytes {
			if err := r.publish(); err != nil {
				return err
			}
		}
	}
	return r.publish()
}

// rejectUnknown rejects the samples of a series that breaks a rule.
func (r *Request) rejectUnknown(p *unknownSeries, why rejection) {
	if !why.rejects() {
		return
	}
	n := p.to.since(p.from)
	r.reject(n.Samples+n.Histograms, 0, p.fields, why) // reject describes the rejection even without samples
	if n.Exemplars > 0 {
		r.rejectExemplars(n.Exemplars, 0, p.fields, why)
	}
}

// registration is what register finds out about a series.
type registration struct {
	ref uint32 // 0 if there is nothing to store
	tag uint32 // of the sending replica, 0 if the series takes part in no election
	why rejection
}

// register finds or creates the ref of an unknown series. A replica that is not elected creates no series.
func (r *Request) register(p *unknownSeries) (out registration, err error) {
	w := r.w
	if ref, tag, known := r.known.FindTagged(p.key); known {
		return registration{ref: ref, tag: tag}, nil
	}
	r.pairs, err = remotewrite.AppendLabels(r.pairs[:0], p.fields)
	if err != nil {
		return out, &BadRequestError{err}
	}
	if out.tag, out.why = r.splitReplica(); out.why.rejects() {
		return out, nil
	}
	if rule, keep := r.relabel(); !keep {
		out.ref = relabel.Dropped(rule)
		r.remember(p.key, out)
		return out, nil
	}
	var pairs []prompb.Label
	pairs, out.why = w.limits.validate(r.pairs, len(r.tenantPrefix))
	n := p.to.since(p.from)
	if out.why.rejects() || n == (Counts{}) {
		return out, nil
	}
	canonical := r.buildLabels(pairs)
	known := false
	if out.ref, known = w.registry.Find(canonical); !known {
		out.ref, known = r.pending[canonical]
	}
	if !known {
		if out.tag != 0 && !r.elected(out.tag) {
			return out, nil
		}
		var created createdSeries
		if created, out.why, err = r.addSeries(canonical, n.Samples+n.Histograms); out.why.rejects() || err != nil {
			return out, err
		}
		out.ref = created.ref
		r.created, r.pending[canonical] = append(r.created, created), created.ref
	}
	if r.rules != nil || p.key != canonical {
		r.remember(p.key, out)
	}
	return out, nil
}

// buildLabels sets r.labels to the stored labels of valid pairs, and returns their key.
func (r *Request) buildLabels(pairs []prompb.Label) (canonical head.Key) {
	r.builder.Reset()
	start := len(r.fields)
	for _, pair := range pairs {
		r.fields = remotewrite.AppendField(r.fields, pair.Name, pair.Value)
		if pair.Name == model.MetricNameLabel {
			pair.Value = r.tenantPrefix + pair.Value
		}
		r.builder.Add(pair.Name, pair.Value)
	}
	r.builder.Overwrite(&r.labels) // nobody keeps the string
	registry := r.w.registry
	canonical = head.InSpace(registry.Hash(r.fields[start:]), registry.Space(r.tenantPrefix))
	r.fields = r.fields[:start]
	return canonical
}

// remember stores the ref and the tag of the labels as sent, if there is room.
func (r *Request) remember(key head.Key, series registration) {
	if r.known.Len() < r.w.knownMax(r.rules) {
		r.created = append(r.created, createdSeries{key: key, ref: series.ref, tag: series.tag, sent: true})
	}
}

// knownMax bounds the series that the registry keeps by their labels as sent.
func (w *Writer) knownMax(rules *relabel.Rules) int {
	most := 3*int(w.series.Load()) + aliasSlack
	if rules != nil {
		most += w.limits.RelabelledSeriesMax
	}
	return most
}

// relabel applies the rules to r.pairs. If keep is false, a rule drops the series.
func (r *Request) relabel() (rule int, keep bool) {
	if r.rules == nil {
		return 0, true
	}
	if !slices.IsSortedFunc(r.pairs, byName) {
		slices.SortStableFunc(r.pairs, byName)
	}
	r.builder.Reset()
	for n, pair := range r.pairs {
		if pair.Name == "" || n > 0 && pair.Name == r.pairs[n-1].Name {
			return 0, true // the limits will refuse it
		}
		if pair.Value != "" {
			r.builder.Add(pair.Name, pair.Value)
		}
	}
	r.changed.Reset(r.builder.Labels()) // the pairs keep parts of it
	if rule, keep = r.rules.Apply(&r.changed); keep {
		r.pairs = prompb.FromLabels(r.changed.Labels(), r.pairs[:0])
	}
	return rule, keep
}

// chooseRegistry selects the registry in which the request looks up its series. It looks them up by the stored labels, or by
// the labels as sent if there are rules.
func (r *Request) chooseRegistry() {
	r.known, r.rules = r.w.registry, r.w.rules.Load()
	if r.rules != nil {
		r.known = r.rules.Known
		r.dropped = append(r.dropped[:0], make([]int, r.rules.Len())...)
	}
	r.cursor, r.space = r.known.Cursor(), r.known.Space(r.tenantPrefix)
	r.replicas.verdicts, r.replicas.err = r.replicas.verdicts[:0], nil
}

// replicas holds what a request knows about the replicas that send its series.
type replicas struct {
	ctx      context.Context
	verdicts []verdict // by tag
	err      error     // first error of an election
}

// verdict says whether the samples of a replica are stored.
type verdict uint8

const (
	verdictOpen verdict = iota
	verdictStore
	verdictDrop
)

// elected reports whether the samples of a replica are stored. The result is the same for the whole request.
func (r *Request) elected(tag uint32) bool {
	x := &r.replicas
	if more := int(tag) + 1 - len(x.verdicts); more > 0 {
		x.verdicts = append(x.verdicts, make([]verdict, more)...)
	}
	if x.verdicts[tag] == verdictOpen {
		won, err := r.rules.Replica(tag).Elected(x.ctx)
		if err != nil && x.err == nil {
			x.err = err
		}
		if x.verdicts[tag] = verdictDrop; won {
			x.verdicts[tag] = verdictStore
		}
	}
	return x.verdicts[tag] == verdictStore
}

// admits reports whether the samples of a known series are stored. Otherwise it counts them: another replica is elected, or a
// rule drops them.
func (r *Request) admits(ref, tag uint32, n Counts) bool {
	if tag != 0 && !r.elected(tag) {
		r.result.Deduplicated.Add(n)
		return false
	}
	if rule, dropped := relabel.DroppedBy(ref); dropped {
		r.drop(rule, n)
		return false
	}
	return true
}

// splitReplica removes the label of the replica from r.pairs and returns the replica's tag. The tag is 0 if the series takes part
// in no election.
func (r *Request) splitReplica() (tag uint32, why rejection) {
	if r.rules == nil || r.rules.HA == nil {
		return 0, why
	}
	ha := r.rules.HA
	cluster, at := "", -1
	for n, pair := range r.pairs {
		switch {
		case pair.Name == ha.ClusterLabel:
			cluster = pair.Value
		case pair.Name == ha.ReplicaLabel && at >= 0:
			return 0, why // the limits will refuse a label that occurs twice
		case pair.Name == ha.ReplicaLabel:
			at = n
		}
	}
	if cluster == "" || at < 0 || r.pairs[at].Value == "" {
		return 0, why
	}
	replica, err := ha.Replica(r.tenantPrefix, cluster, r.pairs[at].Value)
	if err != nil {
		return 0, rejection{haReason(err), err.Error()}
	}
	r.pairs = slices.Delete(r.pairs, at, at+1)
	return r.rules.Tag(replica), why
}

// haReason returns the rejection reason for an error of the tracker.
func haReason(err error) string {
	switch {
	case errors.Is(err, hatracker.ErrClusters):
		return ReasonHAClusters
	case errors.Is(err, hatracker.ErrReplicas):
		return ReasonHAReplicas
	}
	return ReasonLabelValueTooLong
}

// drop counts samples that a rule drops.
func (r *Request) drop(rule int, n Counts) {
	r.result.Dropped.Add(n)
	r.dropped[rule] += n.Sum()
}

// countDropped adds to the metrics the samples that rules drop, and the samples of replicas that are not elected.
func (r *Request) countDropped() {
	if n := r.result.Deduplicated.Sum(); n > 0 {
		r.w.metrics.deduplicated.Add(float64(n))
	}
	if r.result.Dropped == (Counts{}) {
		return
	}
	for rule, n := range r.dropped {
		if n > 0 {
			r.w.metrics.dropped.WithLabelValues(strconv.Itoa(rule)).Add(float64(n))
		}
	}
}

// addSeries adds r.labels to the index and gives the series a number in the log, unless it has one. A limit may refuse the
// series. samples is the number of samples of the series. The caller holds regMu.
func (r *Request) addSeries(key head.Key, samples int) (created createdSeries, why rejection, err error) {
	w, ls := r.w, r.labels
	if why := w.seriesLimits.check(ls.Get(model.MetricNameLabel), samples); why.rejects() {
		return created, why, nil
	}
	number, _, err := w.index.Add(ls)
	if err != nil {
		return created, why, fmt.Errorf("add series %s to the index: %w", describeLabels(r.shown(ls)), err)
	}
	created = createdSeries{key: key, ref: uint32(number)}
	if _, dropped := relabel.DroppedBy(created.ref); dropped {
		return created, why, errors.New("all series numbers of this process are used up; restart it")
	}
	if w.head.LogRef(created.ref) != 0 {
		return created, why, nil
	}
	created.log = w.nextLog
	w.nextLog++
	w.head.Register(created.ref, created.log)
	w.series.Add(1)
	if w.log != nil {
		r.encoded = record.AppendSeries(r.encoded, created.log, ls)
	}
	return created, why, nil
}

// publish writes the records of new series to the log. Then it adds the series to the registry, where other writers find
// them. So no sample gets into the log before its series.
func (r *Request) publish() error {
	if len(r.encoded) > 0 {
		if err := r.appendLog(record.KindSeries, r.encoded); err != nil {
			r.dropSeries()
			return err
		}
		r.encoded = r.encoded[:0]
	}
	for _, f := range r.created {
		if f.sent {
			r.known.InsertTagged(f.key, f.ref, f.tag)
		} else {
			r.w.registry.Insert(f.key, f.ref)
		}
		if f.log != 0 {
			r.w.metrics.newSeries.Inc()
		}
	}
	r.created = r.created[:0]
	clear(r.pending)
	return nil
}

// dropSeries takes back the numbers of series whose records are not in the log.
func (r *Request) dropSeries() {
	for _, f := range r.created {
		if f.log != 0 {
			r.w.head.Register(f.ref, 0)
			r.w.series.Add(-1)
		}
	}
	r.encoded, r.created = r.encoded[:0], r.created[:0]
	clear(r.pending)
}

// StoreMetadata stores the request's metadata. It counts and skips faulty entries; they reject no sample.
func (r *Request) StoreMetadata() error {
	if len(r.metadata) == 0 {
		return nil
	}
	s := r.w.metadata
	s.mu.Lock()
	defer s.mu.Unlock()
	r.payload = r.payload[:0]
	for _, m := range r.metadata {
		if r.w.limits.reserved(model.MetricNameLabel, m.Metric).rejects() {
			r.omit(1, ReasonMetadataInvalid)
			continue
		}
		if m.Metric != "" {
			m.Metric = r.tenantPrefix + m.Metric
		}
		if reason := s.fault(m); reason != "" {
			r.omit(1, reason)
			continue
		}
		if s.put(m.Metric, Metadata{Type: m.Type, Help: m.Help, Unit: m.Unit}) {
			r.payload = record.AppendMetadata(r.payload, record.Metadata(m))
		}
		if len(r.payload) > metadataRecordBytes {
			if err := r.logMetadata(); err != nil {
				return err
			}
		}
	}
	return r.logMetadata()
}

func (r *Request) logMetadata() error {
	if len(r.payload) == 0 {
		return nil
	}
	if err := r.appendLog(record.KindMetadata, r.payload); err != nil {
		return err
	}
	r.payload = r.payload[:0]
	return nil
}
