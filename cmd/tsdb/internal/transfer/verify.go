package transfer

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/zeebo/xxh3"

	"halite/ingest/batch"
	"halite/ingest/remotewrite"
)

// ErrDiffers means that the destination lacks samples of the source or has other values.
var ErrDiffers = errors.New("the destination differs from the source")

// valuesMax bounds the values of a label that one selector lists.
const valuesMax = 256

// differencesMax bounds the samples with another value that the comparison remembers. A later part may replace them.
const differencesMax = 1 << 20

// Verify reads all of the source of an import again and compares each sample with the destination. It counts and sums up the
// samples of both sides, and prints the result. Samples that were rejected may be missing.
func Verify(ctx context.Context, from Source, to Reader, state *State, out io.Writer) error {
	v := &verification{to: to, differences: make(map[sampleKey]difference)}
	err := from.Parts(ctx, Position{NowMs: state.Position.NowMs}, func(p *Part) error {
		defer p.release()
		return v.part(ctx, p)
	})
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	fmt.Fprintf(out, "Verified: source %d samples, checksum %016x; destination %d samples, checksum %016x.\n",
		v.source.samples, v.source.sum, v.found.samples, v.found.sum)
	rejected := state.Counts.rejected()
	switch {
	case len(v.differences) > 0:
		return v.differ()
	case v.missing > rejected:
		return fmt.Errorf("%w: %d samples are missing, and %d were rejected; first: %s", ErrDiffers, v.missing, rejected, v.first)
	case v.missing > 0:
		fmt.Fprintf(out, "%d samples are missing; %d were rejected.\n", v.missing, rejected)
	}
	return nil
}

// digest is a number of samples and the sum of their hashes. The sum does not depend on their order.
type digest struct {
	samples int64
	sum     uint64
}

func (d *digest) add(series uint64, s *sample) {
	var b [32]byte
	binary.LittleEndian.PutUint64(b[:], series)
	binary.LittleEndian.PutUint64(b[8:], uint64(s.tsMs))
	binary.LittleEndian.PutUint64(b[16:], math.Float64bits(s.value))
	if s.h != nil {
		binary.LittleEndian.PutUint64(b[16:], math.Float64bits(s.h.Sum))
		binary.LittleEndian.PutUint64(b[24:], math.Float64bits(s.h.Count))
	}
	d.samples++
	d.sum += xxh3.Hash(b[:])
}

func (d *digest) subtract(o digest) {
	d.samples -= o.samples
	d.sum -= o.sum
}

// verification compares parts of a source with a reader.
type verification struct {
	to            Reader
	source, found digest
	missing       int64
	first         string // the first missing sample
	// differences have another value, unless a later part of the source replaces it by the value of the destination.
	differences map[sampleKey]difference
}

// sampleKey names a sample by the hash of its series and its time.
type sampleKey struct {
	series uint64
	tsMs   int64
}

// difference is what the parts of the source so far have for a sample, and what the destination returned for it.
type difference struct {
	labels        labels.Labels
	source, found digest
}

// sample is a float, or a native histogram if h is set.
type sample struct {
	tsMs  int64
	value float64
	h     *histogram.FloatHistogram
}

// expected is a series of a part.
type expected struct {
	labels  labels.Labels
	hash    uint64
	samples []sample // by time
	next    int      // index of the first sample that the destination has not returned yet
}

// part compares one part.
func (v *verification) part(ctx context.Context, p *Part) error {
	byLabels := make(map[string]*expected)
	byMetric := make(map[string][]*expected)
	fromMs, toMs := int64(math.MaxInt64), int64(math.MinInt64)
	err := p.ForEach(func(fields []byte, s batch.Series) error {
		ls, err := labelsOf(fields)
		if err != nil {
			return err
		}
		key := string(remotewrite.AppendFields(nil, ls))
		e := byLabels[key]
		if e == nil {
			e = &expected{labels: ls, hash: xxh3.HashString(key)}
			byLabels[key] = e
			metric := ls.Get(model.MetricNameLabel)
			byMetric[metric] = append(byMetric[metric], e)
		}
		for n := range s.Samples {
			e.samples = append(e.samples, sample{tsMs: s.Samples[n].TsMs, value: s.Samples[n].Value})
		}
		for n := range s.Histograms {
			e.samples = append(e.samples, sample{tsMs: s.Histograms[n].TsMs, h: floatHistogram(s.Histograms[n].H, s.Histograms[n].FH)})
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, e := range byLabels {
		e.sort()
		for n := range e.samples {
			v.source.add(e.hash, &e.samples[n])
			fromMs, toMs = min(fromMs, e.samples[n].tsMs), max(toMs, e.samples[n].tsMs)
		}
	}
	var fields []byte
	for _, list := range byMetric {
		err := v.to.Read(ctx, fromMs, toMs, selector(list), func(ls labels.Labels, it chunkenc.Iterator) error {
			fields = remotewrite.AppendFields(fields[:0], ls)
			if e := byLabels[string(fields)]; e != nil {
				return v.compare(e, it)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, e := range byLabels {
		v.lack(e, len(e.samples))
	}
	return nil
}

// sort orders the samples by time. If samples have equal times, it keeps the last one, as the destination does.
func (e *expected) sort() {
	byTime := func(a, b sample) int { return cmp.Compare(a.tsMs, b.tsMs) }
	if !slices.IsSortedFunc(e.samples, byTime) {
		slices.SortStableFunc(e.samples, byTime)
	}
	kept := e.samples[:0]
	for n := range e.samples {
		if n+1 == len(e.samples) || e.samples[n+1].tsMs != e.samples[n].tsMs {
			kept = append(kept, e.samples[n])
		}
	}
	e.samples = kept
}

// compare compares samples of the destination with a series.
func (v *verification) compare(e *expected, it chunkenc.Iterator) error {
	for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
		got := sample{tsMs: it.AtT()}
		if kind == chunkenc.ValFloat {
			_, got.value = it.At()
		} else {
			_, got.h = it.AtFloatHistogram(nil)
		}
		at := e.next
		for at < len(e.samples) && e.samples[at].tsMs < got.tsMs {
			at++
		}
		v.lack(e, at)
		if at == len(e.samples) || e.samples[at].tsMs != got.tsMs {
			continue // a sample that the source does not have
		}
		e.next++
		v.found.add(e.hash, &got)
		if err := v.values(e, &e.samples[at], &got); err != nil {
			return err
		}
	}
	return it.Err()
}

// values compares the values of a sample. The last value in the source counts, so an equal one removes earlier differences.
func (v *verification) values(e *expected, want, got *sample) error {
	key := sampleKey{series: e.hash, tsMs: got.tsMs}
	d := v.differences[key]
	if got.equals(want) {
		v.source.subtract(d.source)
		v.found.subtract(d.found)
		delete(v.differences, key)
		return nil
	}
	d.labels = e.labels
	d.source.add(e.hash, want)
	d.found.add(e.hash, got)
	v.differences[key] = d
	if len(v.differences) > differencesMax {
		return fmt.Errorf("the comparison stops: %w", v.differ())
	}
	return nil
}

// differ returns the error of the differences. It names the oldest one.
func (v *verification) differ() error {
	first := sampleKey{tsMs: math.MaxInt64}
	for key := range v.differences {
		if key.tsMs < first.tsMs {
			first = key
		}
	}
	return fmt.Errorf("%w: %d samples have another value; first: %s at %d ms", ErrDiffers, len(v.differences),
		v.differences[first].labels, first.tsMs)
}

// lack records that the destination lacks the next samples of a series, up to the given one.
func (v *verification) lack(e *expected, to int) {
	if to <= e.next {
		return
	}
	v.missing += int64(to - e.next)
	if v.first == "" {
		v.first = fmt.Sprintf("%s at %d ms", e.labels, e.samples[e.next].tsMs)
	}
	e.next = to
}

func (s *sample) equals(o *sample) bool {
	if s.h != nil && o.h != nil {
		return s.h.Equals(o.h)
	}
	return s.h == nil && o.h == nil && math.Float64bits(s.value) == math.Float64bits(o.value)
}

func floatHistogram(h *histogram.Histogram, fh *histogram.FloatHistogram) *histogram.FloatHistogram {
	if h != nil {
		return h.ToFloat(nil)
	}
	return fh
}

// labelsOf returns the labels that the writer makes of label fields: sorted, and without empty values.
func labelsOf(fields []byte) (labels.Labels, error) {
	pairs, err := remotewrite.AppendLabels(nil, fields)
	if err != nil {
		return labels.EmptyLabels(), err
	}
	pairs = slices.DeleteFunc(pairs, func(p prompb.Label) bool { return p.Value == "" })
	builder := labels.NewScratchBuilder(len(pairs))
	for _, p := range pairs {
		builder.Add(p.Name, p.Value)
	}
	builder.Sort()
	return builder.Labels(), nil
}

// selector returns matchers that match all series of a list, and few others.
func selector(list []*expected) []*labels.Matcher {
	values := make(map[string]map[string]struct{})
	for _, e := range list {
		e.labels.Range(func(l labels.Label) { values[l.Name] = make(map[string]struct{}) })
	}
	for _, e := range list {
		for name, seen := range values {
			seen[e.labels.Get(name)] = struct{}{}
		}
	}
	var out []*labels.Matcher
	for name, seen := range values {
		if len(seen) > valuesMax {
			continue
		}
		var texts []string
		for v := range seen {
			texts = append(texts, v)
		}
		slices.Sort(texts)
		if len(texts) == 1 {
			out = append(out, labels.MustNewMatcher(labels.MatchEqual, name, texts[0]))
			continue
		}
		for n := range texts {
			texts[n] = regexp.QuoteMeta(texts[n])
		}
		out = append(out, labels.MustNewMatcher(labels.MatchRegexp, name, strings.Join(texts, "|")))
	}
	return out
}
