package opentsdb

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/grafana/regexp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/api/receiver/opentsdb"
	"halite/keyschema"
	"halite/keyschema/tsuid"
	"halite/storage/aliases"
	"halite/storage/index"
	"halite/storage/principal"
)

const (
	// suggestionsDefault and resultsDefault are OpenTSDB's.
	suggestionsDefault = 25
	resultsDefault     = 25
)

// lookup finds names and series of all times.
type lookup struct {
	*Lookup
	index   Index
	renamed []aliases.Alias // of the tenant
}

func (h *Handlers) begin(r *http.Request) (*lookup, error) {
	l, err := h.opts.Begin(r)
	if err != nil {
		return nil, err
	}
	out := &lookup{Lookup: l, index: h.opts.Index}
	if p := principal.From(r.Context()); h.opts.Aliases != nil && !p.Several() {
		out.renamed, _ = h.opts.Aliases.List(keyschema.TenantOf(p.Prefix()))
	}
	return out, nil
}

func (l *lookup) values(name string, limit int, matchers ...*labels.Matcher) ([]string, error) {
	return l.index.LabelValues(l.Ctx, name, 0, keyschema.TimeMaxMs, limit, matchers...)
}

// keys returns the names of all tags.
func (l *lookup) keys() ([]string, error) {
	names, err := l.index.LabelNames(l.Ctx, 0, keyschema.TimeMaxMs, 0)
	return slices.DeleteFunc(names, func(name string) bool { return name == model.MetricNameLabel }), err
}

func (l *lookup) series(matchers ...*labels.Matcher) ([]index.Series, error) {
	return l.index.Select(l.Ctx, l.Budget, 0, keyschema.TimeMaxMs, matchers...)
}

// matching returns the values of a label that begin with a prefix.
func (l *lookup) matching(name, prefix string, limit int) ([]string, error) {
	if prefix == "" {
		return l.values(name, limit)
	}
	m, err := labels.NewMatcher(labels.MatchRegexp, name, regexp.QuoteMeta(prefix)+".*")
	if err != nil {
		return nil, err
	}
	return l.values(name, limit, m)
}

// suggest answers /api/suggest.
func (h *Handlers) suggest(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	kind, prefix, text := q.Get("type"), q.Get("q"), q.Get("max")
	if r.Method == http.MethodPost {
		var document struct{ Type, Q, Max word }
		if err := h.mustBody(w, r, &document); err != nil {
			return err
		}
		kind, prefix, text = string(document.Type), string(document.Q), string(document.Max)
	}
	switch {
	case kind == "" && r.Method == http.MethodPost:
		return badRequest("Missing 'type' parameter")
	case kind == "":
		return badRequest("Missing parameter <code>type</code>")
	}
	limit := suggestionsDefault
	if text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return badRequest("Unable to parse 'max' as a number")
		}
		if n > 0 {
			limit = n
		}
	}
	l, err := h.begin(r)
	if err != nil {
		return err
	}
	defer l.End()
	found, err := l.suggestions(kind, prefix, limit)
	if err != nil {
		return err
	}
	return respond(w, http.StatusOK, append([]string{}, found...))
}

// suggestions returns the first names of a kind with a prefix, sorted.
func (l *lookup) suggestions(kind, prefix string, limit int) ([]string, error) {
	switch kind {
	case "metrics":
		return l.matching(model.MetricNameLabel, prefix, limit)
	case "tagk":
		names, err := l.keys()
		names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) })
		return names[:min(limit, len(names))], err
	case "tagv":
		names, err := l.keys()
		if err != nil {
			return nil, err
		}
		var all []string
		for _, name := range names {
			found, err := l.matching(name, prefix, limit)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
			slices.Sort(all)
			all = slices.Compact(all)
			all = all[:min(limit, len(all))]
		}
		return all, nil
	}
	return nil, badRequest("Invalid 'type' parameter:%s", opentsdb.Shown(kind))
}

// pair is a tag of a search. An empty part or * stands for any.
type pair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// query is a search. The response repeats it.
type query struct {
	Type         string   `json:"type"`
	Metric       string   `json:"metric,omitempty"`
	Tags         []pair   `json:"tags"`
	Query        string   `json:"query,omitempty"`
	Limit        count    `json:"limit"`
	Time         float64  `json:"time"` // ms
	StartIndex   count    `json:"startIndex"`
	TotalResults int      `json:"totalResults"`
	Results      []result `json:"results"`
}

type result struct {
	TSUID  string            `json:"tsuid"`
	Metric string            `json:"metric"`
	Tags   map[string]string `json:"tags"`
}

// MarshalJSON implements json.Marshaler: a missing part is null, as in OpenTSDB.
func (p pair) MarshalJSON() ([]byte, error) {
	part := func(text string) *string {
		if text == "" {
			return nil
		}
		return &text
	}
	return json.Marshal(map[string]*string{"key": part(p.Key), "value": part(p.Value)})
}

// search answers /api/search/lookup, and refuses the searches that need a plugin in OpenTSDB.
func (h *Handlers) search(w http.ResponseWriter, r *http.Request) error {
	switch strings.ToLower(strings.Trim(strings.TrimPrefix(r.URL.Path, "/api/search"), "/")) {
	case "lookup":
	case "tsmeta", "tsmeta_summary", "tsuids", "uidmeta", "annotation":
		return badRequest("Searching is not enabled")
	default:
		return badRequest("Invalid search query type supplied")
	}
	q, err := h.parseSearch(w, r)
	if err != nil {
		return err
	}
	if q.Metric == "" && len(q.Tags) == 0 {
		return badRequest("Missing metric and tags. Please supply at least one value.")
	}
	began := h.opts.Now()
	l, err := h.begin(r)
	if err != nil {
		return err
	}
	defer l.End()
	found, err := l.find(q)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		if err := l.checkNames(q); err != nil {
			return err
		}
	}
	q.Type, q.Results = "LOOKUP", []result{}
	for _, s := range found {
		if q.Limit > 0 && len(q.Results) == int(q.Limit) {
			break
		}
		q.Results = append(q.Results, resultOf(s.Labels))
	}
	q.TotalResults = len(q.Results)
	q.Time = float64(h.opts.Now().Sub(began).Microseconds()) / 1000
	return respond(w, http.StatusOK, q)
}

func resultOf(series labels.Labels) result {
	out := result{TSUID: tsuid.Text(series), Metric: series.Get(model.MetricNameLabel), Tags: series.Map()}
	delete(out.Tags, model.MetricNameLabel)
	return out
}

// isAny reports whether a part of a search stands for any name.
func isAny(text string) bool { return text == "" || text == "*" }

// parseSearch reads the body, or the parameters m and limit.
func (h *Handlers) parseSearch(w http.ResponseWriter, r *http.Request) (*query, error) {
	q := &query{Limit: resultsDefault, Tags: []pair{}}
	found, err := h.body(w, r, q)
	if found || err != nil {
		return q, err
	}
	m, err := required(r, "m")
	if err != nil {
		return nil, err
	}
	if q.Metric, q.Tags, err = parseSeries(m); err != nil {
		return nil, &failure{status: http.StatusBadRequest, message: "Unable to parse query", details: err.Error()}
	}
	if r.URL.Query().Get("limit") != "" {
		limit, err := whole(r, "limit")
		if err != nil {
			return nil, err
		}
		q.Limit = count(limit)
	}
	return q, nil
}

// parseSeries reads "metric{key=value,…}". The metric and the braces may be missing.
func parseSeries(text string) (metric string, tags []pair, err error) {
	metric, list, braces := strings.Cut(text, "{")
	tags = []pair{}
	if !braces {
		return metric, tags, nil
	}
	list, closed := strings.CutSuffix(list, "}")
	if !closed {
		return "", nil, badRequest("Missing '}' at the end of: %s", opentsdb.Shown(text))
	}
	if list == "" {
		return metric, tags, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		key, value, ok := strings.Cut(part, "=")
		if !ok || key == "" && value == "" || strings.Contains(value, "=") {
			return "", nil, badRequest("When parsing tag '%s': invalid tag: %s", opentsdb.Shown(part), opentsdb.Shown(part))
		}
		tags = append(tags, pair{key, value})
	}
	return metric, tags, nil
}

// find returns the series of a search. All tags with different keys must match. Of tags with equal keys, one must match.
func (l *lookup) find(q *query) ([]index.Series, error) {
	var matchers []*labels.Matcher
	if !isAny(q.Metric) {
		matchers = append(matchers, labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, q.Metric))
	}
	values, order := map[string][]string{}, []string{}
	var loose []string // values of any key
	for _, t := range q.Tags {
		switch {
		case isAny(t.Key) && isAny(t.Value):
		case isAny(t.Key):
			loose = append(loose, t.Value)
		default:
			if _, known := values[t.Key]; !known {
				order = append(order, t.Key)
			}
			if isAny(t.Value) {
				values[t.Key] = append(values[t.Key], "") // stands for any
			} else {
				values[t.Key] = append(values[t.Key], t.Value)
			}
		}
	}
	for _, key := range order {
		matchers = append(matchers, oneOf(key, values[key]))
	}
	if len(matchers) == 0 && len(loose) == 0 { // all series
		matchers = append(matchers, oneOf(model.MetricNameLabel, []string{""}))
	}
	if len(loose) == 0 {
		return l.series(matchers...)
	}
	if len(matchers) == 0 {
		return l.findLoose(loose)
	}
	found, err := l.series(matchers...)
	return slices.DeleteFunc(found, func(s index.Series) bool { return !hasValues(s.Labels, loose) }), err
}

// oneOf matches series whose label has one of the values. An empty value stands for any.
func oneOf(key string, values []string) *labels.Matcher {
	if slices.Contains(values, "") {
		return labels.MustNewMatcher(labels.MatchNotEqual, key, "")
	}
	if len(values) == 1 {
		return labels.MustNewMatcher(labels.MatchEqual, key, values[0])
	}
	quoted := make([]string, len(values))
	for n := range values {
		quoted[n] = regexp.QuoteMeta(values[n])
	}
	return labels.MustNewMatcher(labels.MatchRegexp, key, strings.Join(quoted, "|"))
}

// findLoose returns the series in which each value of the search is the value of some tag.
func (l *lookup) findLoose(values []string) ([]index.Series, error) {
	keys, err := l.keys()
	if err != nil {
		return nil, err
	}
	var out []index.Series
	for _, key := range keys {
		found, err := l.series(labels.MustNewMatcher(labels.MatchEqual, key, values[0]))
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	out = slices.DeleteFunc(out, func(s index.Series) bool { return !hasValues(s.Labels, values) })
	slices.SortFunc(out, func(a, b index.Series) int { return labels.Compare(a.Labels, b.Labels) })
	return slices.CompactFunc(out, func(a, b index.Series) bool { return labels.Equal(a.Labels, b.Labels) }), nil
}

// hasValues reports whether a tag has each value.
func hasValues(series labels.Labels, values []string) bool {
	for _, value := range values {
		found := false
		series.Range(func(l labels.Label) { found = found || l.Name != model.MetricNameLabel && l.Value == value })
		if !found {
			return false
		}
	}
	return true
}

// checkNames returns an error if no series has a name of the search.
func (l *lookup) checkNames(q *query) error {
	unknown := func(kind, name string) error {
		return &failure{
			status: http.StatusNotFound, message: "Unable to resolve one or more UIDs",
			details: "No such name for '" + kind + "': '" + opentsdb.Shown(name) + "'",
		}
	}
	if !isAny(q.Metric) {
		if known, err := l.has(model.MetricNameLabel, q.Metric); err != nil || !known {
			return orElse(err, unknown("metrics", q.Metric))
		}
	}
	keys, err := l.keys()
	if err != nil {
		return err
	}
	for _, t := range q.Tags {
		if !isAny(t.Key) && !slices.Contains(keys, t.Key) {
			return unknown("tagk", t.Key)
		}
		if isAny(t.Value) || isAny(t.Key) {
			continue
		}
		if known, err := l.has(t.Key, t.Value); err != nil || !known {
			return orElse(err, unknown("tagv", t.Value))
		}
	}
	return nil
}

func orElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// has reports whether a series has a label with a value.
func (l *lookup) has(name, value string) (bool, error) {
	found, err := l.values(name, 1, labels.MustNewMatcher(labels.MatchEqual, name, value))
	return len(found) > 0, err
}
