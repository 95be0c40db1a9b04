package opentsdb

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/api/receiver/opentsdb"
	"halite/keyschema"
	"halite/keyschema/tsuid"
	"halite/storage/aliases"
	"halite/storage/index"
)

// kindOf returns the kind of names for a word of a request.
func kindOf(text string) (tsuid.Kind, error) {
	for _, kind := range []tsuid.Kind{tsuid.Metric, tsuid.Key, tsuid.Value} {
		if strings.EqualFold(text, kind.String()) || strings.EqualFold(text, kind.String()+"s") {
			return kind, nil
		}
	}
	return 0, badRequest("Unknown type requested: %s", opentsdb.Shown(text))
}

// noUID answers paths below /api/uid that do not exist.
func (h *Handlers) noUID(http.ResponseWriter, *http.Request) error {
	return &failure{status: http.StatusNotImplemented, message: "Other UID endpoints have not been implemented yet"}
}

// assign answers /api/uid/assign. A UID needs no assignment. As in OpenTSDB, it refuses a name that series have.
func (h *Handlers) assign(w http.ResponseWriter, r *http.Request) error {
	names := map[string][]string{}
	if r.Method == http.MethodPost {
		if err := h.mustBody(w, r, &names); err != nil {
			return err
		}
	} else {
		for _, kind := range []string{"metric", "tagk", "tagv"} {
			if list := r.URL.Query().Get(kind); list != "" {
				names[kind] = strings.Split(list, ",")
			}
		}
	}
	if len(names) == 0 {
		return badRequest("Missing values to assign UIDs")
	}
	l, err := h.begin(r)
	if err != nil {
		return err
	}
	defer l.End()
	status, out := http.StatusOK, map[string]map[string]string{}
	for _, word := range slices.Sorted(maps.Keys(names)) {
		kind, err := kindOf(word)
		if err != nil {
			return err
		}
		assigned, faults, err := h.assignKind(l, kind, names[word])
		if err != nil {
			return err
		}
		out[word] = assigned
		if len(faults) > 0 {
			status, out[word+"_errors"] = http.StatusBadRequest, faults
		}
	}
	return respond(w, status, out)
}

func (h *Handlers) assignKind(
	l *lookup, kind tsuid.Kind, names []string,
) (assigned, faults map[string]string, err error) {
	assigned, faults = map[string]string{}, map[string]string{}
	for _, name := range names {
		if err := h.opts.Names.Check(kind.String(), name); err != nil {
			faults[name] = err.Error()
			continue
		}
		id := tsuid.Derive(kind, name)
		_, known, err := l.nameOf(kind, id)
		if err != nil {
			return nil, nil, err
		}
		if known {
			faults[name] = "Name already exists with UID: " + id.String()
			continue
		}
		assigned[name] = id.String()
	}
	return assigned, faults, nil
}

// nameOf returns the name with a UID.
func (l *lookup) nameOf(kind tsuid.Kind, id tsuid.UID) (name string, found bool, err error) {
	switch kind {
	case tsuid.Metric:
		metrics, err := l.values(model.MetricNameLabel, 0)
		name, found = nameWith(id, kind, metrics)
		return name, found, err
	case tsuid.Key:
		keys, err := l.keys()
		name, found = nameWith(id, kind, keys)
		return name, found, err
	}
	keys, err := l.keys()
	if err != nil {
		return "", false, err
	}
	for _, key := range keys {
		values, err := l.values(key, 0)
		if err != nil {
			return "", false, err
		}
		if name, found := nameWith(id, kind, values); found {
			return name, true, nil
		}
	}
	return "", false, nil
}

// nameWith returns the one of names whose UID is id.
func nameWith(id tsuid.UID, kind tsuid.Kind, names []string) (name string, found bool) {
	at := slices.IndexFunc(names, func(name string) bool { return tsuid.Derive(kind, name) == id })
	if at < 0 {
		return "", false
	}
	return names[at], true
}

// anyNameOf returns the current name for a UID. The UID may belong to a name that an alias has replaced.
func (l *lookup) anyNameOf(kind tsuid.Kind, id tsuid.UID) (name string, found bool, err error) {
	if name, found, err = l.nameOf(kind, id); found || err != nil {
		return name, found, err
	}
	for _, a := range l.renamed {
		if kindOfAlias(a.Kind) == kind && tsuid.Derive(kind, a.Old) == id {
			return l.anyNameOf(kind, tsuid.Derive(kind, a.New)) // aliases form no loop
		}
	}
	return "", false, nil
}

func kindOfAlias(kind aliases.Kind) tsuid.Kind {
	switch kind {
	case aliases.Metric:
		return tsuid.Metric
	case aliases.LabelName:
		return tsuid.Key
	default:
		return tsuid.Value
	}
}

// isOf reports whether a series has a tsuid, now or by its stored names.
func isOf(s *index.Series, text string) bool {
	if tsuid.Text(s.Labels) == text {
		return true
	}
	parts := s.Parts()
	if parts == nil && s.Alias != nil {
		stored := s.Alias.Stored
		_, name := keyschema.SplitTenant(stored.Get(model.MetricNameLabel))
		return tsuid.Text(labels.NewBuilder(stored).Set(model.MetricNameLabel, name).Labels()) == text
	}
	return slices.ContainsFunc(parts, func(part index.Series) bool { return isOf(&part, text) })
}

// seriesOf returns the labels of the series with a tsuid. The tsuid may date from the time before an alias renamed a
// part of it.
func (l *lookup) seriesOf(text string) (labels.Labels, error) {
	s, err := tsuid.ParseSeries(text)
	if err != nil {
		return labels.EmptyLabels(), badRequest("%s", err)
	}
	unknown := notFound("Could not find Timeseries meta data")
	metric, found, err := l.anyNameOf(tsuid.Metric, s.Metric)
	if err != nil || !found {
		return labels.EmptyLabels(), orElse(err, unknown)
	}
	matchers := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, metric)}
	keys, err := l.index.LabelNames(l.Ctx, 0, keyschema.TimeMaxMs, 0, matchers...)
	if err != nil {
		return labels.EmptyLabels(), err
	}
	for _, key := range keys {
		if slices.Contains(s.Keys, tsuid.Derive(tsuid.Key, key)) {
			matchers = append(matchers, labels.MustNewMatcher(labels.MatchNotEqual, key, ""))
		}
	}
	list, err := l.series(matchers...)
	if err != nil {
		return labels.EmptyLabels(), err
	}
	want := strings.ToUpper(text)
	for n := range list {
		if list[n].Labels.Len() == 1+len(s.Keys) && isOf(&list[n], want) {
			return list[n].Labels, nil
		}
	}
	return labels.EmptyLabels(), unknown
}

// description is the text that people write about a name or a series.
type description struct {
	DisplayName string            `json:"displayName"`
	Description string            `json:"description"`
	Notes       string            `json:"notes"`
	Custom      map[string]string `json:"custom"`
	// Created is in seconds since 1970, 0 for names without a description.
	Created int64 `json:"created"`
}

// uidMeta is a name and its description.
type uidMeta struct {
	UID  string `json:"uid"`
	Type string `json:"type"`
	Name string `json:"name"`
	description
}

// Kinds of descriptions of series.
const seriesKind = "ts"

// uidMetaOf returns a name with its description.
func (h *Handlers) uidMetaOf(ctx context.Context, kind tsuid.Kind, name string) (*uidMeta, error) {
	m := &uidMeta{UID: tsuid.Derive(kind, name).String(), Type: strings.ToUpper(kind.String()), Name: name}
	if h.opts.Notes == nil {
		return m, nil
	}
	_, err := h.notes(ctx).ReadDescription(ctx, kind.String(), m.UID, &m.description)
	return m, err
}

// uidMeta answers GET /api/uid/uidmeta.
func (h *Handlers) uidMeta(w http.ResponseWriter, r *http.Request) error {
	u, err := h.uidOf(r, uidDocument{})
	if err != nil {
		return err
	}
	m, err := h.uidMetaOf(r.Context(), u.kind, u.name)
	if err != nil {
		return err
	}
	return respond(w, http.StatusOK, m)
}

// uidDocument is the body of a request that changes a description. Nil fields do not change.
type uidDocument struct {
	UID, Type, TSUID *string
	change
}

// change holds new fields of a description. Nil fields do not change, or become empty if the description is replaced.
type change struct {
	DisplayName *string           `json:"displayName"`
	Description *string           `json:"description"`
	Notes       *string           `json:"notes"`
	Custom      map[string]string `json:"custom"`
}

// fromURL reads the fields that the URL may have.
func (c *change) fromURL(r *http.Request) {
	q := r.URL.Query()
	for name, at := range map[string]**string{"display_name": &c.DisplayName, "description": &c.Description, "notes": &c.Notes} {
		if q.Has(name) {
			value := q.Get(name)
			*at = &value
		}
	}
}

// apply changes a description. It reports whether anything differs.
func (c *change) apply(to *description, replace bool) bool {
	before := *to
	set := func(at *string, value *string) {
		if value != nil {
			*at = *value
		} else if replace {
			*at = ""
		}
	}
	set(&to.DisplayName, c.DisplayName)
	set(&to.Description, c.Description)
	set(&to.Notes, c.Notes)
	if c.Custom != nil || replace {
		to.Custom = c.Custom
	}
	return to.DisplayName != before.DisplayName || to.Description != before.Description || to.Notes != before.Notes ||
		!maps.Equal(to.Custom, before.Custom)
}

// namedUID is a name with its UID.
type namedUID struct {
	kind tsuid.Kind
	id   tsuid.UID
	name string
}

// uidOf returns the name whose UID is in a document or in the URL.
func (h *Handlers) uidOf(r *http.Request, d uidDocument) (u namedUID, err error) {
	var text, word string
	if d.UID != nil && d.Type != nil {
		text, word = *d.UID, *d.Type
	} else if text, err = required(r, "uid"); err == nil {
		word, err = required(r, "type")
	}
	if err != nil {
		return u, err
	}
	kind, err := kindOf(word)
	if err != nil {
		return u, err
	}
	id, err := tsuid.Parse(text)
	if err != nil {
		return u, badRequest("%s", err)
	}
	l, err := h.begin(r)
	if err != nil {
		return u, err
	}
	defer l.End()
	name, found, err := l.anyNameOf(kind, id)
	if err != nil {
		return u, err
	}
	if !found {
		return u, notFound("Could not find the requested UID")
	}
	return namedUID{kind, tsuid.Derive(kind, name), name}, nil // an alias may have replaced the name of id
}

// errUnchanged means that a change has no effect.
var errUnchanged = errors.New("nothing changes")

// uidDocument reads a document from the body, or from the URL if there is no body.
func (h *Handlers) uidDocument(w http.ResponseWriter, r *http.Request) (d uidDocument, err error) {
	found, err := h.body(w, r, &d)
	if err == nil && !found {
		d.fromURL(r)
	}
	return d, err
}

// changeUIDMeta answers POST, PUT and DELETE of /api/uid/uidmeta.
func (h *Handlers) changeUIDMeta(w http.ResponseWriter, r *http.Request) error {
	d, err := h.uidDocument(w, r)
	if err != nil {
		return err
	}
	u, err := h.uidOf(r, d)
	if err != nil {
		return err
	}
	if r.Method == http.MethodDelete {
		return h.removed(w, h.notes(r.Context()).DeleteDescription(r.Context(), u.kind.String(), u.id.String()))
	}
	if err := h.describe(r, u.kind.String(), u.id.String(), &d.change); err != nil {
		return h.unchanged(w, err)
	}
	m, err := h.uidMetaOf(r.Context(), u.kind, u.name)
	if err != nil {
		return err
	}
	return respond(w, http.StatusOK, m)
}

// describe changes a description.
func (h *Handlers) describe(r *http.Request, kind, id string, c *change) error {
	var stored description
	return h.notes(r.Context()).ChangeDescription(r.Context(), kind, id, &stored, func() error {
		if !c.apply(&stored, r.Method == http.MethodPut) {
			return errUnchanged
		}
		if stored.Created == 0 {
			stored.Created = h.opts.Now().Unix()
		}
		return nil
	})
}

// unchanged answers 304 if nothing changes.
func (h *Handlers) unchanged(w http.ResponseWriter, err error) error {
	if errors.Is(err, errUnchanged) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return err
}

func (h *Handlers) removed(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// tsMeta is a series, its names, and its description.
type tsMeta struct {
	TSUID  string     `json:"tsuid"`
	Metric *uidMeta   `json:"metric"`
	Tags   []*uidMeta `json:"tags"`
	description
	Units           string `json:"units"`
	DataType        string `json:"dataType"`
	Retention       int    `json:"retention"`
	Max             string `json:"max"`
	Min             string `json:"min"`
	LastReceived    int64  `json:"lastReceived"`
	TotalDatapoints int64  `json:"totalDatapoints"`
}

// tsMetaOf returns a series with the descriptions of all its names.
func (h *Handlers) tsMetaOf(ctx context.Context, series labels.Labels) (*tsMeta, error) {
	m := &tsMeta{TSUID: tsuid.Text(series), Tags: []*uidMeta{}, Max: "NaN", Min: "NaN"}
	if h.opts.Notes != nil {
		if _, err := h.notes(ctx).ReadDescription(ctx, seriesKind, m.TSUID, &m.description); err != nil {
			return nil, err
		}
	}
	var err error
	if m.Metric, err = h.uidMetaOf(ctx, tsuid.Metric, series.Get(model.MetricNameLabel)); err != nil {
		return nil, err
	}
	for _, name := range tsuid.Keys(series) {
		key, err := h.uidMetaOf(ctx, tsuid.Key, name)
		if err != nil {
			return nil, err
		}
		v, err := h.uidMetaOf(ctx, tsuid.Value, series.Get(name))
		if err != nil {
			return nil, err
		}
		m.Tags = append(m.Tags, key, v)
	}
	return m, nil
}

// tsMetasMax bounds the series of a response of tsmeta.
const tsMetasMax = 1000

// tsMeta answers GET /api/uid/tsmeta: one series by its tsuid, or all of m=metric{tags}.
func (h *Handlers) tsMeta(w http.ResponseWriter, r *http.Request) error {
	l, err := h.begin(r)
	if err != nil {
		return err
	}
	defer l.End()
	if text := r.URL.Query().Get("tsuid"); text != "" {
		series, err := l.seriesOf(text)
		if err != nil {
			return err
		}
		m, err := h.tsMetaOf(r.Context(), series)
		if err != nil {
			return err
		}
		return respond(w, http.StatusOK, m)
	}
	m, err := required(r, "m")
	if err != nil {
		return err
	}
	q := &query{}
	if q.Metric, q.Tags, err = parseSeries(m); err != nil {
		return err
	}
	found, err := l.find(q)
	if err == nil && len(found) == 0 {
		err = l.checkNames(q)
	}
	if err != nil {
		return err
	}
	out := []*tsMeta{}
	for _, s := range found[:min(len(found), tsMetasMax)] {
		m, err := h.tsMetaOf(r.Context(), s.Labels)
		if err != nil {
			return err
		}
		out = append(out, m)
	}
	return respond(w, http.StatusOK, out)
}

// changeTSMeta answers POST, PUT and DELETE of /api/uid/tsmeta.
func (h *Handlers) changeTSMeta(w http.ResponseWriter, r *http.Request) error {
	d, err := h.uidDocument(w, r)
	if err != nil {
		return err
	}
	text := r.URL.Query().Get("tsuid")
	if d.TSUID != nil {
		text = *d.TSUID
	}
	l, err := h.begin(r)
	if err != nil {
		return err
	}
	defer l.End()
	series, err := h.seriesToChange(l, r, text)
	if err != nil {
		return err
	}
	id := tsuid.Text(series)
	if r.Method == http.MethodDelete {
		return h.removed(w, h.notes(r.Context()).DeleteDescription(r.Context(), seriesKind, id))
	}
	if err := h.describe(r, seriesKind, id, &d.change); err != nil {
		return h.unchanged(w, err)
	}
	m, err := h.tsMetaOf(r.Context(), series)
	if err != nil {
		return err
	}
	return respond(w, http.StatusOK, m)
}

// seriesToChange returns the series with a tsuid, or the series of parameter m if the tsuid is "".
func (h *Handlers) seriesToChange(l *lookup, r *http.Request, text string) (labels.Labels, error) {
	if text != "" {
		return l.seriesOf(text)
	}
	m, err := required(r, "m")
	if err != nil {
		return labels.EmptyLabels(), err
	}
	metric, tags, err := parseSeries(m)
	if err != nil {
		return labels.EmptyLabels(), err
	}
	builder := labels.NewBuilder(labels.FromStrings(model.MetricNameLabel, metric))
	for _, t := range tags {
		builder.Set(t.Key, t.Value)
	}
	series, err := l.seriesOf(tsuid.Text(builder.Labels()))
	var own *failure
	if errors.As(err, &own) && own.status == http.StatusNotFound {
		return series, badRequest("Could not find TSMeta, no data point of the series is stored")
	}
	return series, err
}
