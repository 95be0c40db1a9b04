package queries

import (
	"context"
	"fmt"
	"slices"

	"halite/api/opentsdb"
	otsdb "halite/query/opentsdb"
	"halite/query/opentsdb/request"
	"halite/storage/notes"
	"halite/storage/principal"
)

// annotations holds the annotations in the range of a query: of series by their tsuids, and global ones.
type annotations struct {
	store   *notes.Store
	noted   map[string]bool // only series with annotations
	series  map[string][]notes.Annotation
	globals []notes.Annotation
}

// annotations reads the annotations that a query requests. A restricted principal gets no global annotations.
func (h *Handlers) annotations(ctx context.Context, q *request.Query) (found annotations, err error) {
	if h.opts.Notes == nil || q.NoAnnotations {
		return found, nil
	}
	p := principal.From(ctx)
	store := h.opts.Notes.ForTenant(p.Prefix())
	if q.GlobalAnnotations && !p.Restricted() {
		if found.globals, err = store.Annotations(ctx, "", q.StartMs, q.EndMs, opentsdb.AnnotationsMax); err != nil {
			return found, fmt.Errorf("read global annotations: %w", err)
		}
	}
	found.store, found.series = store, map[string][]notes.Annotation{}
	if found.noted, err = store.Series(ctx, q.StartMs, q.EndMs); err != nil {
		return found, fmt.Errorf("find annotations: %w", err)
	}
	return found, nil
}

// read reads the annotations of the series of a response.
func (x *annotations) read(ctx context.Context, q *request.Query, response *otsdb.Response) (err error) {
	for i := range response.Series {
		for _, id := range annotatedIDs(&response.Series[i]) {
			if !x.noted[id] || x.series[id] != nil {
				continue
			}
			if x.series[id], err = x.store.Annotations(ctx, id, q.StartMs, q.EndMs, opentsdb.AnnotationsMax); err != nil {
				return fmt.Errorf("read annotations of a series: %w", err)
			}
		}
	}
	return nil
}

// annotatedIDs returns the tsuids under which the annotations of a group of series may be stored.
func annotatedIDs(s *otsdb.Series) []string { return slices.Concat(s.TSUIDs, s.FormerTSUIDs) }

// annotations writes the annotations of a group of series, and global ones.
func (w *writer) annotations(s *otsdb.Series) {
	var own []notes.Annotation
	for _, id := range annotatedIDs(s) {
		own = append(own, w.noted.series[id]...)
	}
	if len(own) > 0 {
		w.json.Raw(`,"annotations":`)
		w.json.Marshal(opentsdb.ShownAnnotations(own))
	}
	if len(w.noted.globals) > 0 {
		w.json.Raw(`,"globalAnnotations":`)
		w.json.Marshal(opentsdb.ShownAnnotations(w.noted.globals))
	}
}
