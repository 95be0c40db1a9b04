package query

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"halite/query/expression"
	"halite/query/querylog"
	"halite/query/topqueries"
	"halite/storage/principal"
)

// Params are the parameters of instant and range requests. Zero fields mean the Engine's defaults.
type Params struct {
	// Timeout shortens the timeout of the Engine; it cannot lengthen it.
	Timeout time.Duration
	// Lookback replaces the lookback of the Engine.
	Lookback time.Duration
	// Limit truncates the result to this number of series, with a warning.
	Limit int
	// Stats fills Result.Stats; StatsPerStep adds the samples of each step.
	Stats, StatsPerStep bool
	// Columnar turns the columnar operators on or off for this request.
	Columnar Switch
	// Tiers decides for this request whether rollup states replace samples. On uses states wherever they exist. Default uses
	// states if the Engine allows them and they are cheaper.
	Tiers Switch
	// Explain fills Result.Explain.
	Explain bool
	// Client names the client in the list of active queries.
	Client string
	// NoCache evaluates everything and caches nothing.
	NoCache bool
}

// InstantRequest asks for the value of an expression at one time.
type InstantRequest struct {
	Query  string
	TimeMs int64
	Params
}

// RangeRequest asks for the values of an expression at Start, Start+Step … End.
type RangeRequest struct {
	Query      string
	Start, End time.Time
	Step       time.Duration
	Params
}

// Kinds of requests for expressions.
const (
	kindInstant = "instant"
	kindRange   = "range"
)

// request is a request of either kind.
type request struct {
	kind string
	expression.Expression
	Params
	fault error // of the parameters; nil if they are valid
}

// record returns the record of the request for the query log.
func (q request) record(began time.Time) querylog.Query {
	return querylog.Query{
		Time: began, Kind: q.kind, Query: q.Text, StartMs: q.Start.UnixMilli(), EndMs: q.End.UnixMilli(),
		StepMs: q.Step.Milliseconds(), Client: q.Client,
	}
}

// costs returns the cost of a finished request.
func (q request) costs(ctx context.Context, began time.Time, o querylog.Outcome) topqueries.Run {
	run := topqueries.Run{
		Kind: q.kind, Text: q.Text, StartMs: q.Start.UnixMilli(), EndMs: q.End.UnixMilli(), StepMs: q.Step.Milliseconds(),
		Began: began, Took: o.Duration, Samples: o.Samples, PeakBytes: o.PeakBytes, Failed: o.Status != querylog.StatusSuccess,
	}
	if who := principal.From(ctx); who != nil {
		run.Tenant = strings.Join(who.Tenants, "|")
	}
	return run
}

func (o Options) checkQuery(query string, p Params) error {
	if len(query) > o.QueryBytesMax {
		return badParam("query", "the expression has %d bytes, more than the limit of %d (query.max-text-bytes)",
			len(query), o.QueryBytesMax)
	}
	if err := checkNesting(query, o.DepthMax, "query.max-depth"); err != nil {
		return err
	}
	switch {
	case p.Timeout < 0:
		return badParam("timeout", "must not be negative, got %s", p.Timeout)
	case p.Lookback < 0:
		return badParam("lookback_delta", "must not be negative, got %s", p.Lookback)
	case p.Limit < 0:
		return badParam("limit", "limit must be non-negative, got %d", p.Limit)
	}
	return nil
}

func (o Options) checkRange(r RangeRequest) error {
	if err := o.checkQuery(r.Query, r.Params); err != nil {
		return err
	}
	if r.End.Before(r.Start) {
		return badParam("end", "end timestamp must not be before start time")
	}
	if r.Step <= 0 {
		return badParam("step",
			"zero or negative query resolution step widths are not accepted. Try a positive integer")
	}
	if r.Step < time.Millisecond {
		return badParam("step", "step must be at least one millisecond, got %s", r.Step)
	}
	if err := CheckPoints(r.End.Sub(r.Start), r.Step, o.PointsMax); err != nil {
		return &Error{Type: ErrorBadData, Err: err}
	}
	return nil
}

// CheckPoints refuses a range with more than pointsMax steps after the first. The error has Prometheus's words and suggests a
// step. The step must be positive.
func CheckPoints(span, step time.Duration, pointsMax int) error {
	if int64(span/step) <= int64(pointsMax) {
		return nil
	}
	return fmt.Errorf("exceeded maximum resolution of %s points per timeseries. "+
		"Try decreasing the query resolution (?step=%d)", grouped(pointsMax), stepFor(span, pointsMax))
}

// stepFor returns the smallest whole number of seconds for which span/step, rounded down, is at most pointsMax.
func stepFor(span time.Duration, pointsMax int) int64 {
	for s := int64(span/time.Second) / int64(pointsMax+1); ; s++ {
		if s > 0 && int64(span/(time.Duration(s)*time.Second)) <= int64(pointsMax) {
			return s
		}
	}
}

// grouped formats n with commas between thousands.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}
