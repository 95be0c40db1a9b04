package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gorilla/mux"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"

	"halite/api/promjson"
	"halite/ingest"
	"halite/keyschema"
	"halite/storage/index"
	"halite/storage/principal"
)

// errTruncated is the warning of a response that a limit has cut.
var errTruncated = errors.New("results truncated due to limit")

// lookup holds the common parameters of series, label names and label values.
type lookup struct {
	mintMs, maxtMs int64
	// empty is set if the time range lies outside the times that the store can hold.
	empty bool
	limit int
	// sets are the selectors. A series is found if it matches any of them. Without selectors every series is found.
	sets [][]*labels.Matcher
}

// lookupParams reads limit, start, end and match[]. wrap turns a fault of match[] into the error of the endpoint.
func (s *Server) lookupParams(r *http.Request, wrap func(error) *apiError) (lookup, *apiError) {
	var l lookup
	var aerr *apiError
	if l.limit, aerr = limitParam(r); aerr != nil {
		return l, aerr
	}
	start, end, aerr := boundsParam(r)
	if aerr != nil {
		return l, aerr
	}
	texts, aerr := s.selectorTexts(r)
	if aerr != nil {
		return l, aerr
	}
	var err error
	if l.sets, err = matcherSets(s.opts.Engine.Parser(), texts); err != nil {
		return l, wrap(err)
	}
	var ok bool
	l.mintMs, l.maxtMs, ok = storeBounds(start, end)
	l.empty = !ok
	return l, nil
}

// admit waits for a slot of the look-ups and bounds their time. The caller calls leave when it is done.
func (s *Server) admit(r *http.Request) (ctx context.Context, leave func(), aerr *apiError) {
	ctx, cancel := context.WithTimeout(r.Context(), s.opts.Limits.LookupTimeout)
	if err := s.lookups.Acquire(ctx, 1); err != nil {
		defer cancel()
		if r.Context().Err() != nil {
			return nil, nil, evalError(err)
		}
		return nil, nil, &apiError{
			typ: errUnavailable, err: errors.New("too many look-ups are waiting (query.max-lookups); try again later"),
		}
	}
	return ctx, func() { s.lookups.Release(1); cancel() }, nil
}

// labelNames answers /api/v1/labels.
func (s *Server) labelNames(r *http.Request) (reply, *apiError) {
	l, aerr := s.lookupParams(r, badData)
	if aerr != nil {
		return reply{}, aerr
	}
	return s.strings(r, l, func(ctx context.Context, set []*labels.Matcher) ([]string, error) {
		return s.opts.Index.LabelNames(ctx, l.mintMs, l.maxtMs, oneMore(l.limit), set...)
	})
}

// labelValues answers /api/v1/label/<name>/values. The name may be escaped as Prometheus escapes names that are not
// plain words ("U__" and then _ or hexadecimal code points between underscores).
func (s *Server) labelValues(r *http.Request) (reply, *apiError) {
	name, err := url.PathUnescape(mux.Vars(r)["name"])
	if err != nil {
		return reply{}, badData(fmt.Errorf("invalid label name: %w", err))
	}
	if strings.HasPrefix(name, "U__") {
		name = model.UnescapeName(name, model.ValueEncodingEscaping)
	}
	if !model.UTF8Validation.IsValidLabelName(name) {
		return reply{}, badData(fmt.Errorf("invalid label name: %q", name))
	}
	l, aerr := s.lookupParams(r, badData)
	if aerr != nil {
		return reply{}, aerr
	}
	return s.strings(r, l, func(ctx context.Context, set []*labels.Matcher) ([]string, error) {
		return s.opts.Index.LabelValues(ctx, name, l.mintMs, l.maxtMs, oneMore(l.limit), set...)
	})
}

// strings answers with the sorted union of what find returns for each selector.
func (s *Server) strings(
	r *http.Request, l lookup, find func(context.Context, []*labels.Matcher) ([]string, error),
) (reply, *apiError) {
	budget := s.newBudget(r.Context())
	list, aerr := s.findStrings(r, l, budget, find)
	if aerr != nil {
		budget.end()
		return reply{}, aerr
	}
	list, notes := truncate(list, l.limit)
	return reply{
		data:  func(j *promjson.Writer) { j.Strings(list) },
		notes: notes, sending: budget.sending, done: budget.end,
	}, nil
}

// stringBytes is the memory of a string in a list, besides its text.
const stringBytes = 16

func (s *Server) findStrings(
	r *http.Request, l lookup, budget responseBudget, find func(context.Context, []*labels.Matcher) ([]string, error),
) (list []string, aerr *apiError) {
	if l.empty {
		return nil, nil
	}
	ctx, leave, aerr := s.admit(r)
	if aerr != nil {
		return nil, aerr
	}
	defer leave()
	sets := l.sets
	if len(sets) == 0 {
		sets = [][]*labels.Matcher{nil}
	}
	for _, set := range sets {
		found, err := find(ctx, set)
		if err != nil {
			return nil, evalError(err)
		}
		bytes := 0
		for _, text := range found {
			bytes += stringBytes + len(text)
		}
		if err := budget.reserve(bytes); err != nil {
			return nil, evalError(err)
		}
		list = joined(list, found)
	}
	if len(sets) > 1 {
		slices.Sort(list)
		list = slices.Compact(list)
	}
	return list, nil
}

// series answers /api/v1/series. Series are sorted by their labels.
func (s *Server) series(r *http.Request) (reply, *apiError) {
	if aerr := strictForm(r); aerr != nil {
		return reply{}, aerr
	}
	if len(r.Form["match[]"]) == 0 {
		return reply{}, badData(errors.New("no match[] parameter provided"))
	}
	l, aerr := s.lookupParams(r, func(err error) *apiError { return badParam("match[]", err) })
	if aerr != nil {
		return reply{}, aerr
	}
	budget := s.newBudget(r.Context())
	list, aerr := s.findSeries(r, l, budget)
	if aerr != nil {
		budget.end()
		return reply{}, aerr
	}
	list, notes := truncate(list, l.limit)
	return reply{
		data: func(j *promjson.Writer) {
			j.List(len(list), func(i int) { j.Labels(list[i].Labels) })
		},
		notes: notes, sending: budget.sending, done: budget.end,
	}, nil
}

func (s *Server) findSeries(r *http.Request, l lookup, budget responseBudget) (list []index.Series, aerr *apiError) {
	if l.empty {
		return nil, nil
	}
	ctx, leave, aerr := s.admit(r)
	if aerr != nil {
		return nil, aerr
	}
	defer leave()
	reserve := budget.forLookup()
	for _, set := range l.sets {
		found, err := s.opts.Index.Select(ctx, reserve, l.mintMs, l.maxtMs, set...)
		if err != nil {
			return nil, evalError(err)
		}
		list = joined(list, found)
	}
	if len(l.sets) > 1 {
		slices.SortFunc(list, func(a, b index.Series) int { return labels.Compare(a.Labels, b.Labels) })
		list = slices.CompactFunc(list, func(a, b index.Series) bool { return labels.Equal(a.Labels, b.Labels) })
	}
	return list, nil
}

// joined appends found strings to a list. It returns the found strings themselves if the list is empty.
func joined[T any](list, found []T) []T {
	if len(list) == 0 {
		return found
	}
	return append(list, found...)
}

// truncate cuts a list to its limit, with a warning if it omits something.
func truncate[T any](list []T, limit int) ([]T, annotations.Annotations) {
	if limit <= 0 || len(list) <= limit {
		return list, nil
	}
	var notes annotations.Annotations
	notes.Add(errTruncated)
	return list[:limit], notes
}

// metricMetadata answers /api/v1/metadata with type, help and unit by metric, as senders reported them. A limit of 0 means
// unlimited, as in every other look-up. Prometheus answers it with an empty map.
func (s *Server) metricMetadata(r *http.Request) (reply, *apiError) {
	limit, aerr := numberParam(r, "limit")
	if aerr != nil {
		return reply{}, aerr
	}
	perMetric, aerr := numberParam(r, "limit_per_metric")
	if aerr != nil {
		return reply{}, aerr
	}
	var found map[string][]ingest.Metadata
	if s.opts.Metadata != nil {
		restricted := principal.From(r.Context()).Restricted()
		if !restricted {
			found = s.metadata(r.Context(), r.FormValue("metric"), max(limit, 0))
		} else if found, aerr = s.restrictedMetadata(r, s.metadata(r.Context(), r.FormValue("metric"), 0)); aerr != nil {
			return reply{}, aerr
		}
	}
	names := slices.Sorted(maps.Keys(found))
	if limit > 0 && len(names) > limit {
		names = names[:limit]
	}
	return reply{data: func(j *promjson.Writer) {
		j.Raw("{")
		for i, name := range names {
			if i > 0 {
				j.Raw(",")
			}
			j.String(name)
			j.Raw(":")
			entries := found[name]
			if perMetric > 0 && len(entries) > perMetric {
				entries = entries[:perMetric]
			}
			j.List(len(entries), func(i int) { writeMetadata(j, entries[i]) })
		}
		j.Raw("}")
	}}, nil
}

// metadata returns the metadata of the source for a principal: for the metrics of its tenants, under the names without
// tenant prefix.
func (s *Server) metadata(ctx context.Context, metric string, limit int) map[string][]ingest.Metadata {
	who := principal.From(ctx)
	if len(who.Tenants) == 0 {
		return s.opts.Metadata.Metadata(metric, limit)
	}
	found := map[string][]ingest.Metadata{}
	if metric == "" {
		for stored, entries := range s.opts.Metadata.Metadata("", 0) {
			if prefix, name := keyschema.SplitTenant(stored); slices.Contains(who.Tenants, keyschema.TenantOf(prefix)) {
				found[name] = append(found[name], entries...)
			}
		}
	} else {
		for _, stored := range describedNames(who, metric) {
			found[metric] = append(found[metric], s.opts.Metadata.Metadata(stored, 1)[stored]...)
		}
		maps.DeleteFunc(found, func(_ string, entries []ingest.Metadata) bool { return len(entries) == 0 })
	}
	return found
}

// describedNames are the stored names of a metric of the principal's tenants. The default tenant cannot name a metric of another
// tenant by its prefix.
func describedNames(who *principal.Principal, metric string) []string {
	return slices.DeleteFunc(who.Stored(metric), func(stored string) bool {
		prefix, _ := keyschema.SplitTenant(stored)
		return who != nil && len(who.Tenants) > 0 && !slices.Contains(who.Tenants, keyschema.TenantOf(prefix))
	})
}

// restrictedMetadata keeps only the metrics whose series a restricted principal can find.
func (s *Server) restrictedMetadata(
	r *http.Request, all map[string][]ingest.Metadata,
) (found map[string][]ingest.Metadata, aerr *apiError) {
	ctx, leave, aerr := s.admit(r)
	if aerr != nil {
		return nil, aerr
	}
	defer leave()
	minMs, maxMs, _ := storeBounds(minTime, maxTime)
	names, err := s.opts.Index.LabelValues(ctx, model.MetricNameLabel, minMs, maxMs, 0)
	if err != nil {
		return nil, evalError(err)
	}
	found = make(map[string][]ingest.Metadata)
	for _, name := range names {
		families := []string{name}
		for _, suffix := range familySuffixes() {
			if base, cut := strings.CutSuffix(name, suffix); cut {
				families = append(families, base)
			}
		}
		for _, family := range families {
			if entries, known := all[family]; known {
				found[family] = entries
			}
		}
	}
	return found, nil
}

func writeMetadata(j *promjson.Writer, m ingest.Metadata) {
	j.Raw(`{"type":`)
	j.String(m.Type)
	j.Raw(`,"unit":`)
	j.String(m.Unit)
	j.Raw(`,"help":`)
	j.String(m.Help)
	j.Raw(`}`)
}

// numberParam reads a limit of the metadata endpoints. There, negative numbers also mean unlimited.
func numberParam(r *http.Request, name string) (int, *apiError) {
	text := r.FormValue(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, badData(errors.New(name + " must be a number"))
	}
	return n, nil
}
