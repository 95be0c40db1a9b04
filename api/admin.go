package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/api/tenantadmin"
	"halite/ingest"
	"halite/ingest/deletion"
	"halite/keyschema"
	"halite/keyschema/tsuid"
	"halite/storage"
	"halite/storage/aliases"
	"halite/storage/principal"
	"halite/storage/tenants"
	"halite/storage/tombstone"
)

// allowAdmin refuses requests unless the admin API is enabled.
func (s *Server) allowAdmin() *apiError {
	if s.opts.AdminAPI {
		return nil
	}
	return &apiError{typ: errUnavailable, status: http.StatusForbidden, err: errors.New("admin APIs disabled")}
}

// unavailable is the error for a function of Prometheus that the server does not have. Prometheus's agent mode returns the
// same error.
func unavailable(what string) *apiError {
	return &apiError{typ: errExec, err: fmt.Errorf("unavailable with Halite: %s", what)}
}

// flush answers /api/v1/admin/flush. When it returns, the tables have all samples accepted before the call.
func (s *Server) flush(r *http.Request) (reply, *apiError) {
	if aerr := s.allowAdmin(); aerr != nil {
		return reply{}, aerr
	}
	if s.opts.Flusher == nil {
		return reply{}, unavailable("there is no head to flush")
	}
	switch err := s.opts.Flusher.Flush(r.Context()); {
	case errors.Is(err, storage.ErrUnavailable):
		return reply{}, &apiError{typ: errUnavailable, err: fmt.Errorf("flush: %w", err)}
	case err != nil:
		return reply{}, &apiError{typ: errInternal, err: fmt.Errorf("flush: %w", err)}
	}
	return reply{}, nil
}

// snapshot answers /api/v1/admin/tsdb/snapshot. It refuses skip_head=true, because tables without their log do not open. With
// report=true the response has all fields of Snapshot. Otherwise it has only the name, as in Prometheus.
func (s *Server) snapshot(r *http.Request) (reply, *apiError) {
	if aerr := s.allowAdmin(); aerr != nil {
		return reply{}, aerr
	}
	skipHead, aerr := boolParam(r, "skip_head")
	if aerr != nil {
		return reply{}, aerr
	}
	if skipHead {
		return reply{}, badData(errors.New("skip_head=true is not possible: a snapshot holds tables and log together, and the server " +
			"does not open tables without their log; leave the parameter out"))
	}
	wanted, aerr := boolParam(r, "report")
	if aerr != nil {
		return reply{}, aerr
	}
	if s.opts.Snapshot == nil {
		return reply{}, unavailable("this server cannot make snapshots: it has no log, and its tables are in a cloud service; back " +
			"them up there")
	}
	switch snapshot, err := s.opts.Snapshot(r.Context()); {
	case errors.Is(err, storage.ErrUnavailable), errors.Is(err, ingest.ErrClosed), storage.Exhausted(err):
		return reply{}, &apiError{typ: errUnavailable, err: fmt.Errorf("snapshot: %w", err)}
	case errors.Is(err, context.Canceled):
		return reply{}, &apiError{typ: errCanceled, err: err}
	case err != nil:
		return reply{}, &apiError{typ: errInternal, err: fmt.Errorf("snapshot: %w", err)}
	case wanted:
		return document(snapshot)
	default:
		return document(struct {
			Name string `json:"name"`
		}{snapshot.Name})
	}
}

// cancelQuery answers /api/v1/admin/cancel_query: it cancels the query with the given id. The client of that query gets an
// error that says so.
func (s *Server) cancelQuery(r *http.Request) (reply, *apiError) {
	if aerr := s.allowAdmin(); aerr != nil {
		return reply{}, aerr
	}
	text := r.FormValue("id")
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return reply{}, badParam("id", errors.New("must be the id of a query in /api/v1/status/active_queries"))
	}
	if !s.opts.Engine.Cancel(id) {
		return reply{}, &apiError{typ: errNotFound, err: fmt.Errorf("no query with id %d is running", id)}
	}
	return reply{}, nil
}

// changeQueryRules answers /api/v1/admin/query_rules: it adds or removes a rule that refuses or slows queries.
func (s *Server) changeQueryRules(r *http.Request) (reply, *apiError) {
	if aerr := s.allowAdmin(); aerr != nil {
		return reply{}, aerr
	}
	return statusEndpoint(s.inspect().ChangeQueryRules)(r)
}

// aliasItem is an alias in a response.
type aliasItem struct {
	aliases.Alias
	Configured bool `json:"configured"`
}

// aliases answers /api/v1/admin/aliases: GET lists the aliases of the tenant, POST and PUT add one, DELETE removes one.
func (s *Server) aliases(r *http.Request) (reply, *apiError) {
	if aerr := s.allowAdmin(); aerr != nil {
		return reply{}, aerr
	}
	if aerr := strictForm(r); aerr != nil {
		return reply{}, aerr
	}
	if s.opts.Aliases == nil {
		return reply{}, unavailable("there are no aliases")
	}
	tenant := keyschema.TenantOf(principal.From(r.Context()).Prefix())
	if r.Method == http.MethodGet {
		list, configured := s.opts.Aliases.List(tenant)
		items := make([]aliasItem, len(list))
		for i := range list {
			items[i] = aliasItem{list[i], configured[i]}
		}
		return document(items)
	}
	a := aliases.Alias{
		Tenant: tenant, Kind: aliases.Kind(r.FormValue("kind")), Label: r.FormValue("label"), Old: r.FormValue("old"),
		New: r.FormValue("new"),
	}
	if r.Method == http.MethodDelete {
		switch found, err := s.opts.Aliases.Remove(r.Context(), a); {
		case err != nil:
			return reply{}, aliasError(err)
		case !found:
			return reply{}, &apiError{typ: errNotFound, err: fmt.Errorf("%s %q has no alias", a.Kind, a.Old)}
		}
		return reply{}, nil
	}
	if text := r.FormValue("from"); text != "" {
		from, err := parseTime(text)
		if err != nil {
			return reply{}, badParam("from", err)
		}
		a.FromMs = from.UnixMilli()
	}
	return reply{}, aliasError(s.opts.Aliases.Add(r.Context(), a))
}

// aliasError gives an error of the aliases its status; nil stays nil.
func aliasError(err error) *apiError {
	switch {
	case err == nil:
		return nil
	case aliases.Refused(err):
		return badData(err)
	case errors.Is(err, storage.ErrUnavailable):
		return &apiError{typ: errUnavailable, err: err}
	}
	return &apiError{typ: errInternal, err: err}
}

// deleteSeries answers /api/v1/admin/tsdb/delete_series. It has two parameters beyond Prometheus's: all=true permits selectors
// that match everything, and dry_run=true counts the samples that would be deleted.
func (s *Server) deleteSeries(r *http.Request) (reply, *apiError) {
	if aerr := s.allowAdmin(); aerr != nil {
		return reply{}, aerr
	}
	d, aerr := s.deletionParams(r)
	if aerr != nil {
		return reply{}, aerr
	}
	dry, aerr := boolParam(r, "dry_run")
	if aerr != nil {
		return reply{}, aerr
	}
	if s.opts.Deleter == nil {
		return reply{}, unavailable("series cannot be deleted through the API")
	}
	report, aerr := boolParam(r, "report")
	if aerr != nil {
		return reply{}, aerr
	}
	if !dry {
		doomed, err := s.annotatedSeries(r.Context(), &d)
		if err != nil {
			return reply{}, deletionError(err)
		}
		series, err := s.aliasDeleter.DeleteSeries(r.Context(), d)
		if err == nil {
			err = s.deleteAnnotations(r.Context(), doomed)
		}
		if err != nil || !report {
			return reply{}, deletionError(err)
		}
		return document(struct {
			Series int `json:"series"`
		}{series})
	}
	count, err := s.aliasDeleter.CountDeletion(r.Context(), d)
	if err != nil {
		return reply{}, deletionError(err)
	}
	return document(struct {
		Series  int   `json:"series"`
		Samples int64 `json:"samples"`
		Bytes   int64 `json:"bytes"`
		// Rollup states whose samples have expired.
		Hours int64 `json:"rollupHours"`
		Days  int64 `json:"rollupDays"`
		Cut   int64 `json:"rollupsCut"`
	}{count.Series, count.Samples, count.Bytes, count.Orphans.Hours, count.Orphans.Days, count.Orphans.Partial})
}

// annotated is a series with annotations to delete, and their first and last time.
type annotated struct {
	tsuid        string
	fromMs, toMs int64
}

// annotatedSeries returns the series of a deletion that may have annotations in its time range. A renamed series also has the
// tsuid of its stored name, while its alias holds.
func (s *Server) annotatedSeries(ctx context.Context, d *deletion.Request) (doomed []annotated, err error) {
	if s.opts.Notes == nil {
		return nil, nil
	}
	noted, err := s.opts.Notes.ForTenant(principal.From(ctx).Prefix()).Series(ctx, d.FromMs, d.ToMs)
	if err != nil || len(noted) == 0 {
		return nil, err
	}
	budget := s.newBudget(ctx)
	defer budget.end()
	for _, matchers := range d.Selectors {
		found, err := s.opts.Index.Select(ctx, budget.forLookup(), 0, keyschema.TimeMaxMs, matchers...)
		if err != nil {
			return nil, err
		}
		for n := range found {
			parts := found[n].Parts()
			if parts == nil {
				parts = found[n : n+1]
			}
			doomed = append(doomed, annotated{tsuid.Text(found[n].Labels), d.FromMs, d.ToMs})
			for k := range parts {
				if a := parts[k].Alias; a != nil {
					doomed = append(doomed, annotated{
						storedTSUID(a.Stored), max(d.FromMs, keyschema.HourStartMs(a.FirstHour)),
						min(d.ToMs, keyschema.HourStartMs(a.LastHour+1)-1),
					})
				}
			}
		}
	}
	return slices.DeleteFunc(doomed, func(a annotated) bool { return !noted[a.tsuid] || a.fromMs > a.toMs }), nil
}

// storedTSUID returns the tsuid of a series by its stored labels.
func storedTSUID(stored labels.Labels) string {
	_, name := keyschema.SplitTenant(stored.Get(model.MetricNameLabel))
	return tsuid.Text(labels.NewBuilder(stored).Set(model.MetricNameLabel, name).Labels())
}

// deleteAnnotations deletes the annotations of series.
func (s *Server) deleteAnnotations(ctx context.Context, series []annotated) error {
	for _, a := range series {
		if _, err := s.opts.Notes.ForTenant(principal.From(ctx).Prefix()).Delete(ctx, a.tsuid, a.fromMs, a.toMs); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) deletionParams(r *http.Request) (d deletion.Request, aerr *apiError) {
	if aerr := onlyParams(r, "match[]", "start", "end", "all", "dry_run", "report"); aerr != nil {
		return d, aerr
	}
	selectors, aerr := s.selectorTexts(r)
	if aerr != nil {
		return d, aerr
	}
	if len(selectors) == 0 {
		return d, badData(errors.New("no match[] parameter provided"))
	}
	start, end, aerr := boundsParam(r)
	if aerr != nil {
		return d, aerr
	}
	if end.Before(start) {
		return d, badParam("end", errors.New("end timestamp must not be before start time"))
	}
	d.FromMs, d.ToMs = start.UnixMilli(), end.UnixMilli()
	for _, selector := range selectors {
		ms, err := s.opts.Engine.Parser().ParseMetricSelector(selector)
		if err != nil {
			return d, badParam("match[]", err)
		}
		d.Selectors = append(d.Selectors, append([]*labels.Matcher(nil), ms...))
	}
	d.Everything, aerr = boolParam(r, "all")
	return d, aerr
}

// deletionError gives an error of a Deleter its status; nil stays nil.
func deletionError(err error) *apiError {
	var limit *tombstone.LimitError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, deletion.ErrDeletesEverything):
		return badData(fmt.Errorf("%w; set all=true (tsdb delete: --all) to delete them anyway", err))
	case errors.Is(err, deletion.ErrBadRequest):
		return badData(err)
	case errors.As(err, &limit):
		return &apiError{typ: errExec, err: err}
	case errors.Is(err, deletion.ErrUnsupported):
		return unavailable("series cannot be deleted through the API")
	case errors.Is(err, ingest.ErrClosed), errors.Is(err, storage.ErrUnavailable), errors.Is(err, tombstone.ErrOvertaken):
		return &apiError{typ: errUnavailable, err: err}
	case errors.Is(err, context.Canceled):
		return &apiError{typ: errCanceled, err: err}
	default:
		return &apiError{typ: errInternal, err: err}
	}
}

// tableBytes is the size of a table before and after a cleaning.
type tableBytes struct {
	Table  string `json:"table"`
	Before uint64 `json:"bytesBefore"`
	After  uint64 `json:"bytesAfter"`
}

// cleanTombstones answers /api/v1/admin/tsdb/clean_tombstones. With report=true the response reports the result. Otherwise it is
// empty, as in Prometheus.
func (s *Server) cleanTombstones(r *http.Request) (reply, *apiError) {
	if aerr := s.allowAdmin(); aerr != nil {
		return reply{}, aerr
	}
	wanted, aerr := boolParam(r, "report")
	if aerr != nil {
		return reply{}, aerr
	}
	if s.opts.Deleter == nil {
		return reply{}, unavailable("there are no tombstones to clean")
	}
	report, err := s.opts.Deleter.CleanTombstones(r.Context())
	if err != nil || !wanted {
		return reply{}, deletionError(err)
	}
	tables := make([]tableBytes, 0, len(report.Tables))
	for _, t := range report.Tables {
		tables = append(tables, tableBytes(t))
	}
	return document(struct {
		Tombstones    int          `json:"tombstones"`
		Waiting       int          `json:"waiting"`
		RowsRewritten int64        `json:"rowsRewritten"`
		RowsRemoved   int64        `json:"rowsRemoved"`
		Tables        []tableBytes `json:"tables"`
	}{report.Tombstones, report.Waiting, report.RowsRewritten, report.RowsRemoved, tables})
}

// pendingDeletion is a deletion in the JSON of /api/v1/admin/tsdb/deletions.
type pendingDeletion struct {
	ID        uint64   `json:"id"`
	Selectors []string `json:"selectors"`
	// From and To are missing if the deletion has no such end.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	Made string `json:"made"`
	// Waits is "index" while lists of series may be out of date, then "rows".
	Waits string `json:"waits"`
}

// cleaningProgress is the progress of a running clean_tombstones.
type cleaningProgress struct {
	Began         string `json:"began"`
	Deletions     int    `json:"deletions"`
	RowsRead      int64  `json:"rowsRead"`
	RowsRewritten int64  `json:"rowsRewritten"`
	RowsRemoved   int64  `json:"rowsRemoved"`
}

// deletions answers /api/v1/admin/tsdb/deletions: the deletions whose rows are not yet clean, and the progress of the
// cleaning.
func (s *Server) deletions(*http.Request) (reply, *apiError) {
	if aerr := s.allowAdmin(); aerr != nil {
		return reply{}, aerr
	}
	var status deletion.Status
	if s.opts.Deletions != nil {
		status = s.opts.Deletions()
	}
	response := struct {
		Deletions []pendingDeletion `json:"deletions"`
		Cleaning  *cleaningProgress `json:"cleaning"` // null if this server does not clean
	}{Deletions: []pendingDeletion{}}
	for _, t := range status.Deletions {
		d := pendingDeletion{ID: t.ID, Made: time.UnixMilli(t.MadeMs).UTC().Format(time.RFC3339Nano), Waits: "rows"}
		if t.Pending {
			d.Waits = "index"
		}
		if t.FromMs > 0 {
			d.From = time.UnixMilli(t.FromMs).UTC().Format(time.RFC3339Nano)
		}
		if t.ToMs < keyschema.TimeMaxMs {
			d.To = time.UnixMilli(t.ToMs).UTC().Format(time.RFC3339Nano)
		}
		for _, matchers := range t.Selectors {
			d.Selectors = append(d.Selectors, tombstone.SelectorsText([][]*labels.Matcher{matchers}))
		}
		response.Deletions = append(response.Deletions, d)
	}
	if c := status.Cleaning; c != nil {
		began := c.Began.UTC().Format(time.RFC3339Nano)
		response.Cleaning = &cleaningProgress{began, c.Deletions, c.RowsRead, c.RowsRewritten, c.RowsRemoved}
	}
	return document(response)
}

// allowTenants refuses requests unless the admin API is enabled and the server has tenants.
func (s *Server) allowTenants() *apiError {
	if aerr := s.allowAdmin(); aerr != nil || s.opts.Tenants != nil {
		return aerr
	}
	return unavailable("the server has no tenants; start it with --tenants")
}

// listTenants answers /api/v1/admin/tenants: the usage of all tenants, or of the tenant in the parameter tenant.
func (s *Server) listTenants(r *http.Request) (reply, *apiError) {
	if aerr := s.allowTenants(); aerr != nil {
		return reply{}, aerr
	}
	var list []tenantadmin.Usage
	var err error
	if name := r.FormValue("tenant"); name != "" {
		list = make([]tenantadmin.Usage, 1)
		list[0], err = s.opts.Tenants.UsageOf(r.Context(), name)
	} else {
		list, err = s.opts.Tenants.List(r.Context())
	}
	if err != nil {
		return reply{}, tenantError(err)
	}
	return document(list)
}

// addTenant answers /api/v1/admin/tenants/add.
func (s *Server) addTenant(r *http.Request) (reply, *apiError) {
	if aerr := s.allowTenants(); aerr != nil {
		return reply{}, aerr
	}
	if aerr := onlyParams(r, "tenant"); aerr != nil {
		return reply{}, aerr
	}
	return reply{}, tenantError(s.opts.Tenants.Add(r.Context(), r.FormValue("tenant")))
}

// dropTenant answers /api/v1/admin/tenants/drop. With dry_run=true it only reports what the drop would remove.
func (s *Server) dropTenant(r *http.Request) (reply, *apiError) {
	if aerr := s.allowTenants(); aerr != nil {
		return reply{}, aerr
	}
	if aerr := onlyParams(r, "tenant", "dry_run"); aerr != nil {
		return reply{}, aerr
	}
	name := r.FormValue("tenant")
	dry, aerr := boolParam(r, "dry_run")
	if aerr != nil {
		return reply{}, aerr
	}
	if dry {
		content, err := s.opts.Tenants.Preview(r.Context(), name)
		if err != nil {
			return reply{}, tenantError(err)
		}
		return document(content)
	}
	series, err := s.opts.Tenants.Drop(r.Context(), name)
	if err != nil {
		return reply{}, tenantError(err)
	}
	return document(struct {
		Series int `json:"series"`
	}{series})
}

// onlyParams refuses a changing request with unknown parameters. Otherwise a misspelt dry_run would drop data.
func onlyParams(r *http.Request, known ...string) *apiError {
	if aerr := strictForm(r); aerr != nil {
		return aerr
	}
	for name := range r.Form {
		if !slices.Contains(known, name) {
			return badParam(name, fmt.Errorf("unknown, and a deletion cannot be undone; known are %s", strings.Join(known, ", ")))
		}
	}
	return nil
}

// tenantError gives an error of a TenantAdmin its status; nil stays nil.
func tenantError(err error) *apiError {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, keyschema.ErrBadTenant), errors.Is(err, tenantadmin.ErrDefault):
		return badParam("tenant", err)
	case errors.Is(err, tenants.ErrUnknown):
		return &apiError{typ: errNotFound, err: err}
	case errors.Is(err, tenants.ErrTooMany), errors.Is(err, tenants.ErrDropping), errors.Is(err, deletion.ErrTenant):
		return &apiError{typ: errExec, err: err}
	default:
		return deletionError(err)
	}
}
