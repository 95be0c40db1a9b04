package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"halite/query"
)

// query answers /api/v1/query: an expression at one time.
func (s *Server) query(r *http.Request) (reply, *apiError) {
	limit, aerr := limitParam(r)
	if aerr != nil {
		return reply{}, aerr
	}
	at, aerr := timeParam(r, "time", s.opts.Now())
	if aerr != nil {
		return reply{}, aerr
	}
	params, aerr := queryParams(r, limit)
	if aerr != nil {
		return reply{}, aerr
	}
	expr := r.FormValue("query")
	result, err := s.opts.Engine.Instant(withOrigin(r), query.InstantRequest{
		Query: expr, TimeMs: unixMs(at), Params: params,
	})
	return queryReply(expr, result, err)
}

// queryRange answers /api/v1/query_range: an expression at start, start+step and so on to end.
func (s *Server) queryRange(r *http.Request) (reply, *apiError) {
	limit, aerr := limitParam(r)
	if aerr != nil {
		return reply{}, aerr
	}
	req := query.RangeRequest{Query: r.FormValue("query")}
	var err error
	if req.Start, err = parseTime(r.FormValue("start")); err != nil {
		return reply{}, badParam("start", err)
	}
	if req.End, err = parseTime(r.FormValue("end")); err != nil {
		return reply{}, badParam("end", err)
	}
	if req.End.Before(req.Start) {
		return reply{}, badParam("end", errors.New("end timestamp must not be before start time"))
	}
	if req.Step, err = parseDuration(r.FormValue("step")); err != nil {
		return reply{}, badParam("step", err)
	}
	if aerr := s.checkGrid(req.End.Sub(req.Start), req.Step); aerr != nil {
		return reply{}, aerr
	}
	if req.Params, aerr = queryParams(r, limit); aerr != nil {
		return reply{}, aerr
	}
	result, err := s.opts.Engine.Range(withOrigin(r), req)
	return queryReply(req.Query, result, err)
}

// checkGrid bounds the number of points that a range query asks for.
func (s *Server) checkGrid(span, step time.Duration) *apiError {
	if step <= 0 {
		return badParam("step",
			errors.New("zero or negative query resolution step widths are not accepted. Try a positive integer"))
	}
	if points := s.opts.Limits.RangePointsMax; int64(span/step) > int64(points) {
		return badData(fmt.Errorf("exceeded maximum resolution of %s points per timeseries. "+
			"Try decreasing the query resolution (?step=XX)", thousands(points)))
	}
	return nil
}

// thousands formats n with commas.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	var b strings.Builder
	for i := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteByte(digits[i])
	}
	return b.String()
}

// queryParams reads what instant and range queries have in common. Any value of stats asks for statistics, "all" for
// those of every step as well; Prometheus adds a warning to values other than "true" and "all".
func queryParams(r *http.Request, limit int) (query.Params, *apiError) {
	p := query.Params{Limit: limit}
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
	stats := r.FormValue("stats")
	p.Stats, p.StatsPerStep = stats != "", stats == "all"
	return p, nil
}

// withOrigin notes in the context who asked, for the engine's query log.
func withOrigin(r *http.Request) context.Context {
	ip, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		ip = r.RemoteAddr
	}
	return promql.NewOriginContext(r.Context(), map[string]any{
		"httpRequest": map[string]string{"clientIP": ip, "method": r.Method, "path": r.URL.Path},
	})
}

// queryReply turns the outcome of an evaluation into an answer.
func queryReply(expr string, result *query.Result, err error) (reply, *apiError) {
	if err != nil {
		return reply{}, evalError(err)
	}
	data := func(j *jsonWriter) {
		j.raw(`{"resultType":`)
		j.str(string(result.Value.Type()))
		j.raw(`,"result":`)
		writeValue(j, result.Value)
		if result.Stats != nil {
			j.raw(`,"stats":`)
			j.marshal(result.Stats)
		}
		j.raw(`}`)
	}
	return reply{data: data, notes: result.Warnings, expr: expr, done: result.Close}, nil
}

// queryExemplars answers /api/v1/query_exemplars. Exemplars are not stored, so a valid request finds none.
func (s *Server) queryExemplars(r *http.Request) (reply, *apiError) {
	start, end, aerr := boundsParam(r)
	if aerr != nil {
		return reply{}, aerr
	}
	if end.Before(start) {
		return reply{}, badData(errors.New("end timestamp must not be before start timestamp"))
	}
	if _, err := s.opts.Engine.Parser().ParseExpr(r.FormValue("query")); err != nil {
		return reply{}, badData(err)
	}
	return document([]struct{}{})
}

// formatQuery answers /api/v1/format_query: the expression, laid out.
func (s *Server) formatQuery(r *http.Request) (reply, *apiError) {
	expr, aerr := s.parseExpr(r)
	if aerr != nil {
		return reply{}, aerr
	}
	return reply{data: func(j *jsonWriter) { j.str(expr.Pretty(0)) }}, nil
}

// parseQuery answers /api/v1/parse_query: the expression as a tree.
func (s *Server) parseQuery(r *http.Request) (reply, *apiError) {
	expr, aerr := s.parseExpr(r)
	if aerr != nil {
		return reply{}, aerr
	}
	return document(tree(expr))
}

func (s *Server) parseExpr(r *http.Request) (parser.Expr, *apiError) {
	expr, err := s.opts.Engine.Parse(r.FormValue("query"))
	if err != nil {
		return nil, evalError(err)
	}
	return expr, nil
}
