package queries

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/prometheus/model/labels"

	"halite/ingest/deletion"
	"halite/query/opentsdb"
	"halite/query/opentsdb/request"
	"halite/storage/principal"
)

var (
	errNoDeletion = errors.New("only /api/query can delete")
	errSeveral    = errors.New("a deletion is for one tenant, not for several")
	errNoBody     = errors.New("a deletion needs the query in the body of a POST request")
)

// mayDelete returns an error unless the request may delete the samples that it reads.
func (h *Handlers) mayDelete(r *http.Request) error {
	if h.opts.Deleter == nil {
		return &failure{http.StatusBadRequest, errors.New("deleting data is not enabled (web.enable-admin-api)")}
	}
	if p := principal.From(r.Context()); p != nil && !p.Scopes.Has(principal.Admin) {
		return &failure{http.StatusForbidden, fmt.Errorf("%q has the scopes %s; a deletion needs %s",
			p.Name, p.Scopes, principal.Admin)}
	}
	if principal.From(r.Context()).Several() {
		return &failure{http.StatusBadRequest, errSeveral}
	}
	if err := h.opts.SameOrigin(r); err != nil {
		return &failure{http.StatusForbidden, err}
	}
	return nil
}

// delete deletes the selected series in the range of the query.
func (h *Handlers) delete(ctx context.Context, q *request.Query, doomed []opentsdb.Selector) error {
	if len(doomed) == 0 {
		return nil
	}
	d := deletion.Request{FromMs: q.StartMs, ToMs: q.EndMs}
	for _, s := range doomed {
		d.Selectors = append(d.Selectors, append([]*labels.Matcher(nil), s...))
	}
	_, err := h.opts.Deleter.DeleteSeries(ctx, d)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, deletion.ErrBadRequest), errors.Is(err, deletion.ErrDeletesEverything):
		return &failure{http.StatusBadRequest, err}
	case errors.Is(err, deletion.ErrUnsupported):
		return &failure{http.StatusBadRequest, err}
	}
	return fmt.Errorf("delete what was read: %w", err)
}
