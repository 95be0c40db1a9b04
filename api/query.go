package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"halite/api/promjson"
	"halite/query"
	"halite/storage/principal"
)

// query answers /api/v1/query: an expression at one time.
func (s *Server) query(r *http.Request) (reply, *apiError) {
	req, aerr := s.instantRequest(r)
	if aerr != nil {
		return reply{}, aerr
	}
	result, err := s.opts.Engine.Instant(r.Context(), req)
	return queryReply(r, req.Query, result, err)
}

// queryRange answers /api/v1/query_range: an expression at start, start+step and so on to end.
func (s *Server) queryRange(r *http.Request) (reply, *apiError) {
	req, aerr := s.rangeRequest(r)
	if aerr != nil {
		return reply{}, aerr
	}
	result, err := s.opts.Engine.Range(r.Context(), req)
	return queryReply(r, req.Query, result, err)
}

// instantRequest reads the parameters of an expression at one time. The default time is now.
func (s *Server) instantRequest(r *http.Request) (req query.InstantRequest, aerr *apiError) {
	limit, aerr := limitParam(r)
	if aerr != nil {
		return req, aerr
	}
	at, aerr := timeParam(r, "time", s.opts.Now())
	if aerr != nil {
		return req, aerr
	}
	params, aerr := queryParams(r, limit)
	return query.InstantRequest{Query: r.FormValue("query"), TimeMs: unixMs(at), Params: params}, aerr
}

// rangeRequest reads the parameters of an expression over a range.
func (s *Server) rangeRequest(r *http.Request) (req query.RangeRequest, aerr *apiError) {
	limit, aerr := limitParam(r)
	if aerr != nil {
		return req, aerr
	}
	req.Query = r.FormValue("query")
	var err error
	if req.Start, err = parseTime(r.FormValue("start")); err != nil {
		return req, badParam("start", err)
	}
	if req.End, err = parseTime(r.FormValue("end")); err != nil {
		return req, badParam("end", err)
	}
	if req.End.Before(req.Start) {
		return req, badParam("end", errors.New("end timestamp must not be before start time"))
	}
	if req.Step, err = parseDuration(r.FormValue("step")); err != nil {
		return req, badParam("step", err)
	}
	if req.Step <= 0 {
		return req, badParam("step",
			errors.New("zero or negative query resolution step widths are not accepted. Try a positive integer"))
	}
	if err := query.CheckPoints(req.End.Sub(req.Start), req.Step, s.opts.Limits.RangePointsMax); err != nil {
		return req, badData(err)
	}
	req.Params, aerr = queryParams(r, limit)
	return req, aerr
}

// queryParams reads the parameters of instant and range queries. Any value of stats asks for statistics; "all" also asks for
// the statistics of each step.
func queryParams(r *http.Request, limit int) (query.Params, *apiError) {
	p := query.Params{Limit: limit, Client: r.RemoteAddr}
	var err error
	if text := r.FormValue("timeout"); text != "" {
		if p.Timeout, err = parseDuration(text); err != nil {
			return p, badParam("timeout", err)
		}
	}
	if text := r.FormValue("lookback_delta"); text != "" {
		if p.Lookback, err = parseDuration(text); err != nil {
			return p, badData(fmt.Errorf("error parsing lookback delta duration: %w", err))
		}
	}
	var aerr *apiError
	if p.Explain, aerr = boolParam(r, "explain"); aerr != nil {
		return p, aerr
	}
	if who := principal.From(r.Context()); p.Explain && (who.Restricted() || len(who.Tenants) > 0) {
		return p, &apiError{typ: errForbidden, err: errors.New("an explanation shows more than the series that you may read")}
	}
	if p.NoCache, aerr = boolParam(r, "nocache"); aerr != nil {
		return p, aerr
	}
	if p.Tiers, aerr = tiersParam(r); aerr != nil {
		return p, aerr
	}
	stats := r.FormValue("stats")
	p.Stats, p.StatsPerStep = stats != "", stats == statsAll
	return p, nil
}

// tiersParam reads whether rollups may replace samples: auto leaves the choice to the server, raw forbids it.
func tiersParam(r *http.Request) (query.Switch, *apiError) {
	switch text := r.FormValue("tiers"); text {
	case "", "auto":
		return query.Default, nil
	case "raw":
		return query.Off, nil
	default:
		return query.Default, badParam("tiers", fmt.Errorf("is %q: use auto or raw", text))
	}
}

// The values of the parameter stats that Prometheus will continue to accept.
const (
	statsTrue = "true"
	statsAll  = "all"
)

// statsWarning returns Prometheus's warning about other values of stats.
func statsWarning(value string) error {
	switch value {
	case "", statsTrue, statsAll:
		return nil
	}
	return fmt.Errorf("value %q for parameter \"stats\" is deprecated and will be rejected in the next major release, "+
		"use %q or %q", value, statsTrue, statsAll)
}

// boolParam reads a parameter that is true or false in any of Go's spellings; absent is false.
func boolParam(r *http.Request, name string) (bool, *apiError) {
	text := r.FormValue(name)
	if text == "" {
		return false, nil
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, badParam(name, fmt.Errorf("cannot parse %q to a valid boolean, use 1 or 0", text))
	}
	return value, nil
}

// queryReply turns the outcome of an evaluation into a response.
func queryReply(r *http.Request, expr string, result *query.Result, err error) (reply, *apiError) {
	if err != nil {
		return reply{}, evalError(err)
	}
	if warning := statsWarning(r.FormValue("stats")); warning != nil {
		result.Warnings.Add(warning)
	}
	data := func(j *promjson.Writer) {
		j.Raw(`{"resultType":`)
		j.String(string(result.Value.Type()))
		j.Raw(`,"result":`)
		j.Value(result.Value)
		if result.Stats != nil {
			j.Raw(`,"stats":`)
			j.Marshal(result.Stats)
		}
		if result.Explain != nil {
			j.Raw(`,"explain":`)
			j.Marshal(explanation(result.Explain))
		}
		j.Raw(`}`)
	}
	return reply{data: data, notes: result.Warnings, expr: expr, sending: result.Sending, done: result.Close}, nil
}

// exemplarSource is a Queryable that has exemplars; *promadapter.Queryable is one.
type exemplarSource interface {
	// Exemplars returns the exemplars of the series that match one of the sets, sorted by series and time.
	Exemplars(ctx context.Context, minMs, maxMs int64, sets ...[]*labels.Matcher) ([]exemplar.QueryResult, error)
}

// queryExemplars answers /api/v1/query_exemplars.
func (s *Server) queryExemplars(r *http.Request) (reply, *apiError) {
	start, end, aerr := boundsParam(r)
	if aerr != nil {
		return reply{}, aerr
	}
	if end.Before(start) {
		return reply{}, badData(errors.New("end timestamp must not be before start timestamp"))
	}
	expr, err := s.opts.Engine.Parse(r.FormValue("query"))
	if err != nil {
		if typed := new(query.Error); errors.As(err, &typed) {
			err = typed.Err // Prometheus does not name the parameter here
		}
		return reply{}, badData(err)
	}
	selectors := parser.ExtractSelectors(expr)
	minMs, maxMs, ok := storeBounds(start, end)
	budget := s.newBudget(r.Context())
	source, has := s.readUnder(budget).(exemplarSource)
	if !has || !ok || len(selectors) == 0 {
		budget.end()
		return document([]struct{}{})
	}
	ctx, leave, aerr := s.admit(r)
	if aerr != nil {
		budget.end()
		return reply{}, aerr
	}
	defer leave()
	list, err := source.Exemplars(ctx, minMs, maxMs, selectors...)
	if err != nil {
		budget.end()
		return reply{}, evalError(err)
	}
	return reply{data: func(j *promjson.Writer) { j.Exemplars(list) }, sending: budget.sending, done: budget.end}, nil
}

// formatQuery answers /api/v1/format_query with the formatted expression.
func (s *Server) formatQuery(r *http.Request) (reply, *apiError) {
	text, err := s.opts.Engine.Format(r.FormValue("query"))
	if err != nil {
		return reply{}, evalError(err)
	}
	return reply{data: func(j *promjson.Writer) { j.String(text) }}, nil
}

// parseQuery answers /api/v1/parse_query: the expression as a tree.
func (s *Server) parseQuery(r *http.Request) (reply, *apiError) {
	expr, err := s.opts.Engine.Parse(r.FormValue("query"))
	if err != nil {
		return reply{}, evalError(err)
	}
	return document(promjson.Tree(expr))
}
