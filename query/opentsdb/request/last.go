package request

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
)

// Last is a checked query for the newest points of series.
type Last struct {
	// Resolve adds metric and tags to the points.
	Resolve bool
	// BackScanHours bounds the age of points; 0 means no bound.
	BackScanHours int
	Subs          []LastSub
}

// LastSub selects series by metric and tags, or by tsuids.
type LastSub struct {
	Metric string
	Tags   map[string]string
	TSUIDs []string
}

// LastURL parses the parameters of a GET request to /api/query/last.
func (p *Parser) LastURL(v url.Values) (*Last, error) {
	q := &Last{Resolve: v.Has("resolve") && v.Get("resolve") != "false"}
	if text := v.Get("back_scan"); text != "" {
		hours, err := strconv.Atoi(text)
		if err != nil {
			return nil, bad("Unable to parse back_scan parameter")
		}
		q.BackScanHours = hours
	}
	for _, text := range v["timeseries"] {
		sub, err := parseSeries(text)
		if err != nil {
			return nil, err
		}
		q.Subs = append(q.Subs, sub)
	}
	for _, text := range v["tsuids"] {
		q.Subs = append(q.Subs, LastSub{TSUIDs: strings.Split(text, ",")})
	}
	return p.checkLast(q)
}

// LastJSON parses the body of a POST request to /api/query/last.
func (p *Parser) LastJSON(body []byte) (*Last, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, noContent()
	}
	var raw struct {
		ResolveNames, Resolve flag
		BackScan              integer
		Queries               []LastSub
	}
	if err := json.Unmarshal(body, &raw); err != nil {
		return nil, malformed(err)
	}
	return p.checkLast(&Last{
		Resolve: bool(raw.ResolveNames || raw.Resolve), BackScanHours: int(raw.BackScan), Subs: raw.Queries,
	})
}

func (p *Parser) checkLast(q *Last) (*Last, error) {
	if len(q.Subs) == 0 {
		return nil, bad("Missing sub queries")
	}
	if most := p.limits.SubQueriesMax; len(q.Subs) > most {
		return nil, bad("the query has %d sub-queries, more than the limit of %d (query.max-selectors)", len(q.Subs), most)
	}
	if most := 24 * 365 * 1000; q.BackScanHours < 0 || q.BackScanHours > most {
		return nil, bad("the back scan of %d hours is not between 0 and %d", q.BackScanHours, most)
	}
	for _, sub := range q.Subs {
		if sub.Metric == "" && len(sub.TSUIDs) == 0 {
			return nil, bad("Missing metric or tsuids")
		}
	}
	return q, nil
}

// parseSeries parses metric{tag=value,…}.
func parseSeries(text string) (LastSub, error) {
	metric, rest, braces := strings.Cut(text, "{")
	sub := LastSub{Metric: metric, Tags: map[string]string{}}
	if !braces {
		return sub, nil
	}
	inner, closed := strings.CutSuffix(rest, "}")
	if !closed {
		return sub, bad("Missing '}' at the end of: %s", text)
	}
	if inner == "" {
		return sub, nil
	}
	for pair := range strings.SplitSeq(inner, ",") {
		key, value, _ := strings.Cut(pair, "=")
		if key == "" || value == "" {
			return sub, bad("When parsing tag '%s': invalid tag: %s", pair, pair)
		}
		sub.Tags[key] = value
	}
	return sub, nil
}
