package opentsdb

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"halite/keyschema/tsuid"
	"halite/query/opentsdb/request"
	"halite/storage"
	"halite/storage/notes"
)

// AnnotationsMax bounds the annotations of a request, the global annotations of a response, and its annotations of each series.
const AnnotationsMax = 10_000

// annotation is an annotation in a request. Nil fields of a POST do not change.
type annotation struct {
	TSUID     *word `json:"tsuid"`
	StartTime *word `json:"startTime"`
	EndTime   *word `json:"endTime"`
	change
}

// storedAnnotation is an annotation in a response.
type storedAnnotation struct {
	TSUID       string            `json:"tsuid"`
	StartTime   int64             `json:"startTime"`
	EndTime     int64             `json:"endTime"`
	Description string            `json:"description"`
	Notes       string            `json:"notes"`
	Custom      map[string]string `json:"custom,omitzero"`
}

// shownAnnotation converts times into the unit in which they were written.
func shownAnnotation(a *notes.Annotation) storedAnnotation {
	out := storedAnnotation{
		TSUID: a.TSUID, StartTime: a.StartMs, EndTime: a.EndMs, Description: a.Description, Notes: a.Notes, Custom: a.Custom,
	}
	if a.Seconds {
		out.StartTime, out.EndTime = a.StartMs/1000, a.EndMs/1000
	}
	return out
}

// ShownAnnotations returns annotations in the form of responses, for encoding/json.
func ShownAnnotations(list []notes.Annotation) any { return shownAnnotations(list) }

func shownAnnotations(list []notes.Annotation) []storedAnnotation {
	out := make([]storedAnnotation, len(list))
	for n := range list {
		out[n] = shownAnnotation(&list[n])
	}
	return out
}

// timeOf reads a time as queries do. "" is 0. seconds says that it is in seconds.
func (h *Handlers) timeOf(text string) (ms int64, seconds bool, err error) {
	if text == "" {
		return 0, true, nil
	}
	if ms, err = h.times.Time(text, time.UTC); err != nil {
		return 0, false, badRequest("%s", err)
	}
	return ms, request.InSeconds(text), nil
}

// place is where an annotation is.
type place struct {
	// series is a tsuid, "" for a global annotation.
	series  string
	startMs int64
	// inSeconds says that the annotation names its start in seconds.
	inSeconds bool
}

// placeOf returns the place of an annotation.
func (h *Handlers) placeOf(a *annotation) (p place, err error) {
	if a.TSUID != nil && *a.TSUID != "" {
		p.series = strings.ToUpper(string(*a.TSUID))
		if _, err := tsuid.ParseSeries(p.series); err != nil {
			return place{}, badRequest("%s", err)
		}
	}
	if a.StartTime != nil {
		if p.startMs, p.inSeconds, err = h.timeOf(string(*a.StartTime)); err != nil {
			return place{}, err
		}
	}
	if p.startMs == 0 {
		return place{}, badRequest("The start timestamp has not been set")
	}
	return p, nil
}

// unchangedEnd means that an annotation names no end.
const unchangedEnd = -1

// newAnnotation is an annotation that a request stores. endMs may be unchangedEnd, or 0 for no end.
type newAnnotation struct {
	*annotation
	place
	endMs int64
}

// check returns the annotation to store, or an error if its times or its series are invalid.
func (h *Handlers) check(a *annotation) (n newAnnotation, err error) {
	n = newAnnotation{annotation: a, endMs: unchangedEnd}
	if n.place, err = h.placeOf(a); err != nil || a.EndTime == nil {
		return n, err
	}
	if n.endMs, _, err = h.timeOf(string(*a.EndTime)); err != nil {
		return n, err
	}
	if n.endMs > 0 && n.endMs < n.startMs {
		return n, badRequest("The end timestamp cannot be less than the start timestamp")
	}
	return n, nil
}

// annotationOf reads an annotation from the body, or from the URL.
func (h *Handlers) annotationOf(w http.ResponseWriter, r *http.Request) (*annotation, error) {
	a := &annotation{}
	found, err := h.body(w, r, a)
	if found || err != nil {
		return a, err
	}
	q := r.URL.Query()
	if q.Get("start_time") == "" {
		return nil, badRequest("Missing start time")
	}
	for name, at := range map[string]**word{"tsuid": &a.TSUID, "start_time": &a.StartTime, "end_time": &a.EndTime} {
		if q.Has(name) {
			value := word(q.Get(name))
			*at = &value
		}
	}
	a.fromURL(r)
	return a, nil
}

// annotation answers GET /api/annotation.
func (h *Handlers) annotation(w http.ResponseWriter, r *http.Request) error {
	a, err := h.annotationOf(w, r)
	if err != nil {
		return err
	}
	p, err := h.placeOf(a)
	if err != nil {
		return err
	}
	stored, found, err := h.notes(r.Context()).Annotation(r.Context(), p.series, p.startMs)
	if err == nil && !found {
		err = notFound("Unable to locate annotation in storage")
	}
	if err != nil {
		return err
	}
	return respond(w, http.StatusOK, shownAnnotation(&stored))
}

// annotations answers GET /api/annotations with the global annotations in a range.
func (h *Handlers) annotations(w http.ResponseWriter, r *http.Request) error {
	a, err := h.annotationOf(w, r)
	if err != nil {
		return err
	}
	a.TSUID = nil
	p, err := h.placeOf(a)
	if err != nil {
		return err
	}
	toMs := h.opts.Now().UnixMilli()
	if a.EndTime != nil && *a.EndTime != "" {
		if toMs, _, err = h.timeOf(string(*a.EndTime)); err != nil {
			return err
		}
	}
	if toMs < p.startMs {
		return badRequest("The end timestamp cannot be less than the start timestamp")
	}
	list, err := h.notes(r.Context()).Annotations(r.Context(), "", p.startMs, toMs, AnnotationsMax)
	if err != nil {
		return annotationFailure(err)
	}
	return respond(w, http.StatusOK, shownAnnotations(list))
}

// changeAnnotation answers POST, PUT and DELETE of /api/annotation.
func (h *Handlers) changeAnnotation(w http.ResponseWriter, r *http.Request) error {
	a, err := h.annotationOf(w, r)
	if err != nil {
		return err
	}
	if r.Method == http.MethodDelete {
		p, err := h.placeOf(a)
		if err != nil {
			return err
		}
		_, err = h.notes(r.Context()).Delete(r.Context(), p.series, p.startMs, p.startMs)
		return h.removed(w, err)
	}
	checked, err := h.check(a)
	if err != nil {
		return err
	}
	stored, err := h.storeAnnotation(r, checked)
	if err != nil {
		return h.unchanged(w, err)
	}
	return respond(w, http.StatusOK, shownAnnotation(&stored))
}

// storeAnnotation stores a new annotation, or changes the one at the same place. PUT replaces it.
func (h *Handlers) storeAnnotation(r *http.Request, a newAnnotation) (notes.Annotation, error) {
	replace := r.Method == http.MethodPut
	change := func(old notes.Annotation, found bool) (notes.Annotation, error) {
		text := description{Description: old.Description, Notes: old.Notes, Custom: old.Custom}
		changed := a.apply(&text, replace)
		out := notes.Annotation{
			Seconds: a.inSeconds, EndMs: old.EndMs, Description: text.Description, Notes: text.Notes, Custom: text.Custom,
		}
		if a.endMs != unchangedEnd || replace {
			out.EndMs = max(a.endMs, 0)
		}
		if found && !changed && out.EndMs == old.EndMs {
			return old, errUnchanged
		}
		return out, nil
	}
	stored, err := h.notes(r.Context()).Change(r.Context(), a.series, a.startMs, change)
	return stored, annotationFailure(err)
}

// annotationFailure gives the errors of the store their status.
func annotationFailure(err error) error {
	switch {
	case errors.Is(err, notes.ErrTooMany), errors.Is(err, storage.ErrBadMutation): // too many, or too large
		return &failure{status: http.StatusRequestEntityTooLarge, message: err.Error()}
	}
	return err
}

// storeAnnotations answers POST and PUT of /api/annotation/bulk.
func (h *Handlers) storeAnnotations(w http.ResponseWriter, r *http.Request) error {
	var list []annotation
	if err := h.mustBody(w, r, &list); err != nil {
		return err
	}
	if len(list) > AnnotationsMax {
		return &failure{
			status:  http.StatusRequestEntityTooLarge,
			message: fmt.Sprintf("%d annotations in one request, at most %d are allowed", len(list), AnnotationsMax),
		}
	}
	checked := make([]newAnnotation, len(list))
	for n := range list { // an invalid annotation refuses all of them
		var err error
		if checked[n], err = h.check(&list[n]); err != nil {
			return err
		}
	}
	out := []storedAnnotation{}
	for _, a := range checked {
		stored, err := h.storeAnnotation(r, a)
		if err != nil && !errors.Is(err, errUnchanged) {
			return err
		}
		out = append(out, shownAnnotation(&stored))
	}
	return respond(w, http.StatusOK, out)
}

// bulkDeletion is the selection of DELETE of /api/annotation/bulk.
type bulkDeletion struct {
	TSUIDs             []string
	Global             bool
	StartTime, EndTime word
}

// bulkDeleted is the response to a bulkDeletion. Times are in milliseconds.
type bulkDeleted struct {
	TSUIDs       []string `json:"tsuids"`
	Global       bool     `json:"global"`
	StartTime    int64    `json:"startTime"`
	EndTime      int64    `json:"endTime"`
	TotalDeleted int      `json:"totalDeleted"`
}

// deleteAnnotations answers DELETE of /api/annotation/bulk.
func (h *Handlers) deleteAnnotations(w http.ResponseWriter, r *http.Request) error {
	d, err := h.bulkDeletionOf(w, r)
	if err != nil {
		return err
	}
	if d.StartTime == "" {
		return badRequest("Missing the start time value")
	}
	if !d.Global && len(d.TSUIDs) == 0 {
		return badRequest("Missing the TSUIDs or global annotations flag")
	}
	fromMs, _, err := h.timeOf(string(d.StartTime))
	if err != nil {
		return err
	}
	toMs := h.opts.Now().UnixMilli()
	if d.EndTime != "" {
		if toMs, _, err = h.timeOf(string(d.EndTime)); err != nil {
			return err
		}
	}
	series := slices.Clone(d.TSUIDs)
	if d.Global {
		series = append([]string{""}, series...)
	}
	out := bulkDeleted{TSUIDs: d.TSUIDs, Global: d.Global, StartTime: fromMs, EndTime: toMs}
	for n, text := range series { // an invalid tsuid refuses all deletions
		series[n] = strings.ToUpper(text)
		if _, err := tsuid.ParseSeries(series[n]); text != "" && err != nil {
			return badRequest("%s", err)
		}
	}
	for _, one := range series {
		n, err := h.notes(r.Context()).Delete(r.Context(), one, fromMs, toMs)
		if err != nil {
			return err
		}
		out.TotalDeleted += n
	}
	return respond(w, http.StatusOK, out)
}

func (h *Handlers) bulkDeletionOf(w http.ResponseWriter, r *http.Request) (*bulkDeletion, error) {
	d := &bulkDeletion{}
	found, err := h.body(w, r, d)
	if found || err != nil {
		return d, err
	}
	q := r.URL.Query()
	d.StartTime, d.EndTime, d.Global = word(q.Get("start_time")), word(q.Get("end_time")), q.Has("global")
	for one := range strings.SplitSeq(q.Get("tsuids"), ",") {
		if one = strings.TrimSpace(one); one != "" {
			d.TSUIDs = append(d.TSUIDs, one)
		}
	}
	return d, nil
}
