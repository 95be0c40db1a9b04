package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"halite/api/keyviz"
	"halite/api/senders"
	"halite/api/status"
	"halite/ingest"
	"halite/ingest/hatracker"
	"halite/ingest/ratelimit"
	"halite/ingest/tenantlimits"
	"halite/keyschema"
	"halite/query/limits"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/principal"
	"halite/storage/retention"
)

// rankingDefault is the parameter limit of a request without one.
const rankingDefault = 10

// buildInfo answers /api/v1/status/buildinfo. The version names the Prometheus API, because clients choose their
// requests by it; the program's own version is in the overview and in tsdb_build_info.
func (s *Server) buildInfo(*http.Request) (reply, *apiError) {
	b := &s.opts.Build
	return document(struct {
		Version   string `json:"version"`
		Revision  string `json:"revision"`
		Branch    string `json:"branch"`
		BuildUser string `json:"buildUser"`
		BuildDate string `json:"buildDate"`
		GoVersion string `json:"goVersion"`
	}{b.APIVersion, b.Revision, b.Branch, b.BuildUser, b.BuildDate, b.GoVersion})
}

// flags answers /api/v1/status/flags.
func (s *Server) flags(*http.Request) (reply, *apiError) {
	flags := s.opts.Flags
	if flags == nil {
		flags = map[string]string{}
	}
	return document(flags)
}

// config answers /api/v1/status/config.
func (s *Server) config(*http.Request) (reply, *apiError) {
	var yaml string
	if s.opts.Config != nil {
		yaml = s.opts.Config()
	}
	return document(map[string]string{"yaml": yaml})
}

// runtimeInfo answers /api/v1/status/runtimeinfo.
func (s *Server) runtimeInfo(*http.Request) (reply, *apiError) {
	var info RuntimeInfo
	if s.opts.Runtime != nil {
		info = s.opts.Runtime()
	}
	// A process without a working directory or host name is unusual, but it can serve. Then these fields stay empty.
	dir, _ := os.Getwd()
	host, _ := os.Hostname()
	return document(struct {
		StartTime           time.Time `json:"startTime"`
		CWD                 string    `json:"CWD"`
		Hostname            string    `json:"hostname"`
		ServerTime          time.Time `json:"serverTime"`
		ReloadConfigSuccess bool      `json:"reloadConfigSuccess"`
		LastConfigTime      time.Time `json:"lastConfigTime"`
		CorruptionCount     int64     `json:"corruptionCount"`
		GoroutineCount      int       `json:"goroutineCount"`
		GOMAXPROCS          int       `json:"GOMAXPROCS"`
		GOMEMLIMIT          int64     `json:"GOMEMLIMIT"`
		GOGC                string    `json:"GOGC"`
		GODEBUG             string    `json:"GODEBUG"`
		StorageRetention    string    `json:"storageRetention"`
	}{
		info.StartTime.UTC(), dir, host, s.opts.Now().UTC(), info.ConfigLoaded, info.ConfigTime.UTC(),
		info.CorruptionCount, runtime.NumGoroutine(), runtime.GOMAXPROCS(0), debug.SetMemoryLimit(-1),
		os.Getenv("GOGC"), os.Getenv("GODEBUG"), info.StorageRetention,
	})
}

// count is a line of a ranking.
type count struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

func counts(ranking []index.NameCount) []count {
	list := make([]count, 0, len(ranking))
	for _, n := range ranking {
		list = append(list, count{n.Name, n.Count})
	}
	return list
}

// rankingLimit reads the parameter limit of a request for rankings.
func (s *Server) rankingLimit(r *http.Request) (int, *apiError) {
	text := r.FormValue("limit")
	if text == "" {
		return rankingDefault, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 {
		return 0, badData(errors.New("limit must be a positive number"))
	}
	if limit > s.opts.Limits.RankingMax {
		return 0, badData(fmt.Errorf("limit must not exceed %d", s.opts.Limits.RankingMax))
	}
	return limit, nil
}

// tsdbStatus answers /api/v1/status/tsdb with the size of the active index and rankings of its labels.
func (s *Server) tsdbStatus(r *http.Request) (reply, *apiError) {
	limit, fault := s.rankingLimit(r)
	if fault != nil {
		return reply{}, fault
	}
	// The bounds of an empty head, as in Prometheus.
	stats := StoreStats{MinTimeMs: math.MaxInt64, MaxTimeMs: math.MinInt64}
	if s.opts.Stats != nil {
		stats = s.opts.Stats.StoreStats(limit)
	}
	type head struct {
		Series     int   `json:"numSeries"`
		LabelPairs int   `json:"numLabelPairs"`
		Chunks     int64 `json:"chunkCount"`
		MinTime    int64 `json:"minTime"`
		MaxTime    int64 `json:"maxTime"`
	}
	return document(struct {
		Head           head    `json:"headStats"`
		SeriesByMetric []count `json:"seriesCountByMetricName"`
		ValuesByLabel  []count `json:"labelValueCountByLabelName"`
		BytesByLabel   []count `json:"memoryInBytesByLabelName"`
		SeriesByPair   []count `json:"seriesCountByLabelValuePair"`
	}{
		head{stats.Series, stats.LabelPairs, stats.Chunks, stats.MinTimeMs, stats.MaxTimeMs},
		counts(stats.SeriesByMetric), counts(stats.ValuesByLabel),
		counts(stats.BytesByLabel), counts(stats.SeriesByPair),
	})
}

// tsdbBlocks answers /api/v1/status/tsdb/blocks. Halite has no blocks.
func (s *Server) tsdbBlocks(*http.Request) (reply, *apiError) {
	return document(map[string]any{"blocks": []any{}})
}

// walReplay answers /api/v1/status/walreplay, even before the server is ready.
func (s *Server) walReplay(*http.Request) (reply, *apiError) {
	state := s.opts.Ready()
	return document(struct {
		Min     int `json:"min"`
		Max     int `json:"max"`
		Current int `json:"current"`
	}{state.ReplayMin, state.ReplayMax, state.ReplayCurrent})
}

// schemaRules answers /api/v1/status/schema: the rules in force, the default rule last, and the current hour, to compare
// with from_hour. Prometheus has no such endpoint.
func (s *Server) schemaRules(*http.Request) (reply, *apiError) {
	rules := []keyschema.Rule{}
	if s.opts.Rules != nil {
		rules = s.opts.Rules()
	}
	return document(map[string]any{"rules": rules, "hour": keyschema.HourOf(s.opts.Now().UnixMilli())})
}

// activeQuery is a running query. Its times are unix milliseconds, as in the endpoint of the same name in other databases.
type activeQuery struct {
	ID         string  `json:"id"`
	Duration   string  `json:"duration"`
	RemoteAddr string  `json:"remote_addr"`
	Query      string  `json:"query"`
	Kind       string  `json:"kind"`
	Start      int64   `json:"start"`
	End        int64   `json:"end"`
	Step       int64   `json:"step"`
	Waiting    bool    `json:"waiting"`
	Samples    int64   `json:"samples"`
	Since      float64 `json:"since"`
	// Fingerprint is the text that a query rule may match; see limits.Fingerprint.
	Fingerprint string `json:"fingerprint,omitempty"`
}

// activeQueries answers /api/v1/status/active_queries: the running and waiting queries, oldest first.
func (s *Server) activeQueries(*http.Request) (reply, *apiError) {
	now := s.opts.Now()
	list := []activeQuery{}
	for _, q := range s.opts.Engine.Active() {
		// A query that cannot be parsed ends at once and has no fingerprint.
		fingerprint, _ := limits.Fingerprint(s.opts.Engine.Parser(), q.Query)
		list = append(list, activeQuery{
			Fingerprint: fingerprint,
			ID:          strconv.FormatUint(q.ID, 10), Duration: max(0, now.Sub(q.Start)).Round(time.Millisecond).String(),
			RemoteAddr: q.Client, Query: q.Query, Kind: q.Kind, Start: q.FromMs, End: q.ToMs, Step: q.StepMs,
			Waiting: q.Waiting, Samples: q.Samples, Since: float64(q.Start.UnixMilli()) / 1000,
		})
	}
	return document(list)
}

// limits answers /api/v1/status/limits with the usage of the limits of samples per second, active series and queries. It
// lists metrics near their limit, metrics with refused samples, and metrics that a dry run would have refused. Prometheus
// has no such endpoint.
func (s *Server) limits(r *http.Request) (reply, *apiError) {
	most, fault := s.rankingLimit(r)
	if fault != nil {
		return reply{}, fault
	}
	var status ingest.SeriesLimitStatus
	if s.opts.SeriesLimits != nil {
		status = s.opts.SeriesLimits(most)
	}
	var queries *limits.Status
	if s.opts.QueryLimits != nil {
		queries = new(s.opts.QueryLimits.Status())
	}
	return document(struct {
		ingest.SeriesLimitStatus
		Queries *limits.Status `json:"queries,omitempty"`
		Tenants []tenantLimits `json:"tenants,omitempty"`
	}{status, queries, s.limitsOfTenants(most)})
}

// tenantLimits is the state of the limits of a tenant.
type tenantLimits struct {
	Tenant           string              `json:"tenant"`
	Series           ingest.LimitUse     `json:"series"`
	SamplesPerSecond ingest.LimitUse     `json:"samplesPerSecond"`
	Queries          limits.TenantStatus `json:"queries"`
}

func (s *Server) tenantLimitsOf(name string, use tenantlimits.Use) tenantLimits {
	limitUse := func(u ratelimit.Use) ingest.LimitUse {
		return ingest.LimitUse{Used: u.Used, Warn: u.Warn, Max: u.Max, DryRun: u.DryRun}
	}
	out := tenantLimits{Tenant: name, Series: limitUse(use.Series), SamplesPerSecond: limitUse(use.SamplesPerSecond)}
	if s.opts.QueryLimits != nil {
		out.Queries = s.opts.QueryLimits.TenantStatus(name)
	}
	return out
}

// limitsOfTenants returns the state of the tenants with the most series; nil if there are no tenants.
func (s *Server) limitsOfTenants(most int) (out []tenantLimits) {
	if s.opts.TenantUses == nil {
		return nil
	}
	for name, use := range s.opts.TenantUses() {
		out = append(out, s.tenantLimitsOf(name, use))
	}
	slices.SortFunc(out, func(a, b tenantLimits) int {
		return cmp.Or(cmp.Compare(b.Series.Used, a.Series.Used), strings.Compare(a.Tenant, b.Tenant))
	})
	return out[:min(most, len(out))]
}

// tenantLimits answers /api/v1/status/tenant_limits: the limits of the principal's tenants. Prometheus has no such endpoint.
func (s *Server) tenantLimits(r *http.Request) (reply, *apiError) {
	if s.opts.TenantUses == nil {
		return reply{}, unavailable("the server has no tenants; start it with --tenants")
	}
	names := principal.From(r.Context()).Tenants
	out, uses := make([]tenantLimits, 0, len(names)), s.opts.TenantUses(names...)
	for _, name := range names {
		out = append(out, s.tenantLimitsOf(name, uses[name]))
	}
	return document(map[string]any{"tenants": out})
}

// queryRules answers /api/v1/status/query_rules: the rules that refuse queries or send them through the slow lane, with their
// counts. Prometheus has no such endpoint.
func (s *Server) queryRules(*http.Request) (reply, *apiError) {
	rules := []limits.RuleStatus{}
	if s.opts.QueryLimits != nil {
		rules = s.opts.QueryLimits.Rules()
	}
	return document(map[string]any{"rules": rules})
}

// senders answers /api/v1/status/senders with the senders since the start, the most recent first. It also lists the refusals
// and the elected replicas of HA pairs. The parameter limit bounds the lists. Prometheus has no such endpoint.
func (s *Server) senders(r *http.Request) (reply, *apiError) {
	most := s.opts.Limits.RankingMax
	if r.FormValue("limit") != "" {
		var fault *apiError
		if most, fault = s.rankingLimit(r); fault != nil {
			return reply{}, fault
		}
	}
	clusters := []hatracker.ClusterStatus{}
	if s.opts.HAClusters != nil {
		clusters = s.opts.HAClusters()
	}
	list, evicted := s.opts.Senders.List(most)
	return document(struct {
		Senders    []senders.Status          `json:"senders"`
		Evicted    uint64                    `json:"evicted"`
		HAClusters []hatracker.ClusterStatus `json:"haClusters"`
	}{list, evicted, clusters[:min(most, len(clusters))]})
}

// doctor answers /api/v1/status/doctor with verdicts about the server, see package api/doctor. Prometheus has no such endpoint.
func (s *Server) doctor(r *http.Request) (reply, *apiError) {
	if s.opts.Doctor == nil {
		return reply{}, unavailable("this server has no doctor")
	}
	report, err := s.opts.Doctor(r.Context())
	if err != nil {
		return reply{}, &apiError{typ: errInternal, err: err}
	}
	return document(report)
}

// retention answers /api/v1/status/retention, see retention.Cost. The parameters raw, hours, days and histograms are retentions
// to try. The parameter rule is the pattern of the only rule to change. Prometheus has no such endpoint.
func (s *Server) retention(r *http.Request) (reply, *apiError) {
	if s.opts.Retention == nil {
		return document(map[string]any{"costs": []retention.Cost{}})
	}
	try := retention.Change{Pattern: r.FormValue("rule")}
	for t := keyschema.Raw; t < keyschema.TierCount; t++ {
		text := r.FormValue(t.String())
		if text == "" {
			continue
		}
		age, err := keyschema.ParseAge(text)
		if err != nil {
			return reply{}, &apiError{typ: errBadData, err: fmt.Errorf("invalid parameter %q: %w", t.String(), err)}
		}
		try.Retention[t] = &age
	}
	costs, err := s.opts.Retention(r.Context(), try)
	switch {
	case errors.Is(err, retention.ErrBadChange):
		return reply{}, &apiError{typ: errBadData, err: err}
	case err != nil:
		return reply{}, &apiError{typ: errInternal, err: fmt.Errorf("measure the stored data: %w", err)}
	}
	return document(map[string]any{"costs": costs})
}

// inspect returns the handler of the endpoints that examine the server.
func (s *Server) inspect() *status.Handler {
	return status.New(status.Options{
		TopQueries: s.opts.TopQueries, QueryLimits: s.opts.QueryLimits, Now: s.opts.Now, Limits: s.opts.Limits.Status,
		Keys: status.Keys{Rules: s.opts.Rules, ParseSelector: s.opts.Engine.Parser().ParseMetricSelector, ParseTime: parseTime},
		Index: status.Index{
			Select: s.selectWithin, LabelNames: s.opts.Index.LabelNames, LabelValues: s.opts.Index.LabelValues,
			MetricBytes: s.opts.MetricBytes, LastReads: s.opts.LastReads,
		},
	})
}

// selectWithin looks up series within the memory of a query, which stays reserved until done.
func (s *Server) selectWithin(
	ctx context.Context, minMs, maxMs int64, matchers ...*labels.Matcher,
) (found []index.Series, done func(), err error) {
	b := s.newBudget(ctx)
	if found, err = s.opts.Index.Select(ctx, b.forLookup(), minMs, maxMs, matchers...); err != nil {
		b.end()
		return nil, nil, err
	}
	return found, b.end, nil
}

// cardinality answers /api/v1/status/cardinality. It takes a slot of the look-ups.
func (s *Server) cardinality(r *http.Request) (reply, *apiError) {
	ctx, leave, aerr := s.admit(r)
	if aerr != nil {
		return reply{}, aerr
	}
	defer leave()
	return statusEndpoint(s.inspect().Cardinality)(r.WithContext(ctx))
}

// statusEndpoint is an endpoint of package status.
func statusEndpoint(handle func(r *http.Request) (any, error)) endpoint {
	return func(r *http.Request) (reply, *apiError) {
		if aerr := strictForm(r); aerr != nil {
			return reply{}, aerr
		}
		response, err := handle(r)
		if err != nil {
			return reply{}, statusError(err)
		}
		return document(response)
	}
}

// statusError gives an error of package status its status.
func statusError(err error) *apiError {
	switch {
	case errors.Is(err, status.ErrBadRequest):
		return badData(err)
	case errors.Is(err, status.ErrUnknown):
		return &apiError{typ: errNotFound, err: err}
	case errors.Is(err, status.ErrFull), errors.Is(err, status.ErrOff):
		return &apiError{typ: errExec, err: err}
	}
	return evalError(err)
}

// dataTablets lists the tablets of the data table.
func (s *Server) dataTablets(ctx context.Context) ([]storage.Tablet, error) {
	if s.opts.Tablets == nil {
		return nil, nil
	}
	table, err := s.opts.Tablets.Table(ctx, storage.TableData)
	if errors.Is(err, storage.ErrNoTable) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return table.Tablets(ctx)
}

// keyvizEndpoint is an endpoint of the key heat map.
func keyvizEndpoint(handle func(r *http.Request) (any, error)) endpoint {
	return func(r *http.Request) (reply, *apiError) {
		if aerr := strictForm(r); aerr != nil {
			return reply{}, aerr
		}
		response, err := handle(r)
		switch {
		case errors.Is(err, keyviz.ErrBadRequest):
			return reply{}, badData(err)
		case errors.Is(err, keyviz.ErrOff):
			return reply{}, &apiError{typ: errUnavailable, err: err}
		case err != nil:
			return reply{}, &apiError{typ: errInternal, err: err}
		}
		return document(response)
	}
}

// keyText returns a row key as text. Keys of samples are printable ASCII and do not change.
func keyText(key []byte) string {
	for _, b := range key {
		if b < ' ' || b > '~' {
			quoted := strconv.QuoteToASCII(string(key))
			return quoted[1 : len(quoted)-1]
		}
	}
	return string(key)
}
