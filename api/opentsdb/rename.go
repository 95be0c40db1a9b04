package opentsdb

import (
	"fmt"
	"net/http"

	"halite/api/receiver/opentsdb"
	"halite/keyschema"
	"halite/keyschema/tsuid"
	"halite/storage/aliases"
	"halite/storage/principal"
)

// rename answers /api/uid/rename with an alias: the name answers as the new one at all times.
func (h *Handlers) rename(w http.ResponseWriter, r *http.Request) error {
	if h.opts.Aliases == nil || !h.opts.MayRename {
		return &failure{status: http.StatusForbidden, message: "renaming needs --web.enable-admin-api"}
	}
	names := map[string]string{}
	if r.Method == http.MethodPost {
		if err := h.mustBody(w, r, &names); err != nil {
			return err
		}
	} else {
		for _, field := range []string{"metric", "tagk", "tagv", "name"} {
			if value := r.URL.Query().Get(field); value != "" {
				names[field] = value
			}
		}
	}
	to := names["name"]
	delete(names, "name")
	if to == "" || len(names) == 0 {
		return badRequest("Missing necessary values to rename UID")
	}
	if len(names) != 1 {
		return badRequest("Exactly one of metric, tagk and tagv must be given")
	}
	l, err := h.begin(r)
	if err != nil {
		return err
	}
	defer l.End()
	for word, from := range names {
		kind, err := kindOf(word)
		if err != nil {
			return err
		}
		if err := h.renameTo(l, r, kind, from, to); err != nil {
			if !aliases.Refused(err) {
				return err
			}
			return respond(w, http.StatusBadRequest, map[string]string{"result": "false", "error": err.Error()})
		}
	}
	return respond(w, http.StatusOK, map[string]string{"result": "true"})
}

// renameTo adds the alias of a name that series have.
func (h *Handlers) renameTo(l *lookup, r *http.Request, kind tsuid.Kind, from, to string) error {
	if err := h.opts.Names.Check(kind.String(), to); err != nil {
		return fmt.Errorf("%w: %w", aliases.ErrBad, err)
	}
	_, known, err := l.nameOf(kind, tsuid.Derive(kind, from))
	if err != nil {
		return err
	}
	if !known {
		return fmt.Errorf("%w: No such name for '%s': '%s'", aliases.ErrBad, kind, opentsdb.Shown(from))
	}
	kinds := map[tsuid.Kind]aliases.Kind{tsuid.Metric: aliases.Metric, tsuid.Key: aliases.LabelName, tsuid.Value: aliases.LabelValue}
	return h.opts.Aliases.Add(r.Context(), aliases.Alias{
		Tenant: keyschema.TenantOf(principal.From(r.Context()).Prefix()), Kind: kinds[kind], Old: from, New: to,
	})
}
