package translation

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"halite/query/opentsdb/request"
)

// Read translates all queries of a text. The text has a URI of /api/query on each line, or is the body of a POST to /api/query,
// or a Grafana target, panel or dashboard.
func Read(text []byte, p *request.Parser) ([]Translation, error) {
	trimmed := strings.TrimSpace(string(text))
	if trimmed == "" {
		return nil, errors.New("the input is empty")
	}
	if trimmed[0] != '{' && trimmed[0] != '[' {
		return readURIs(trimmed, p)
	}
	var document any
	if err := json.Unmarshal([]byte(trimmed), &document); err != nil {
		return nil, fmt.Errorf("the input is neither JSON nor a URI: %w", err)
	}
	out, err := readDocument(document, p, 0)
	if err == nil && len(out) == 0 {
		err = errors.New("the input has no query of OpenTSDB: neither queries, nor targets or panels with an aggregator and a metric")
	}
	return out, err
}

// readURIs translates one URI per line.
func readURIs(text string, p *request.Parser) (out []Translation, err error) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		_, params, found := strings.Cut(line, "?")
		if !found {
			return nil, fmt.Errorf("the URI %q has no question mark with parameters after it", line)
		}
		v, err := url.ParseQuery(params)
		if err != nil {
			return nil, fmt.Errorf("the parameters of %q: %w", line, err)
		}
		q, err := p.URL(v)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		out = append(out, translateAll(q, true)...)
	}
	return out, nil
}

func translateAll(q *request.Query, times bool) (out []Translation) {
	for i := range q.Subs {
		out = append(out, Translate(q, &q.Subs[i], times))
	}
	return out
}

// depthMax bounds the nesting of rows and panels in a dashboard.
const depthMax = 10

// readDocument translates the queries of a JSON value.
func readDocument(value any, p *request.Parser, depth int) (out []Translation, err error) {
	if list, ok := value.([]any); ok {
		for _, element := range list {
			inner, err := readDocument(element, p, depth)
			if err != nil {
				return nil, err
			}
			out = append(out, inner...)
		}
		return out, nil
	}
	object, ok := value.(map[string]any)
	if !ok || depth > depthMax {
		return nil, nil
	}
	if _, ok := object["queries"]; ok {
		body, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		q, err := p.JSON(body)
		if err != nil {
			return nil, err
		}
		return translateAll(q, true), nil
	}
	if _, ok := object["aggregator"]; ok && object["metric"] != nil {
		return readTarget(object, p)
	}
	for _, name := range []string{"dashboard", "rows", "panels", "targets"} {
		inner, err := readDocument(object[name], p, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, inner...)
	}
	return out, nil
}

// target is a query of a panel of Grafana with the OpenTSDB data source.
type target struct {
	Aggregator           string            `json:"aggregator"`
	Metric               string            `json:"metric"`
	DisableDownsampling  bool              `json:"disableDownsampling"`
	DownsampleAggregator string            `json:"downsampleAggregator"`
	DownsampleFillPolicy string            `json:"downsampleFillPolicy"`
	DownsampleInterval   string            `json:"downsampleInterval"`
	ShouldComputeRate    bool              `json:"shouldComputeRate"`
	IsCounter            bool              `json:"isCounter"`
	ExplicitTags         bool              `json:"explicitTags"`
	Tags                 map[string]string `json:"tags"`
	Filters              []json.RawMessage `json:"filters"`
}

// readTarget translates a target of Grafana.
func readTarget(object map[string]any, p *request.Parser) ([]Translation, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var t target
	if err := json.Unmarshal(text, &t); err != nil {
		return nil, fmt.Errorf("the target of the metric %v: %w", object["metric"], err)
	}
	name := t.Aggregator + ":" + t.Metric
	refuse := func(why string) ([]Translation, error) { return []Translation{{Name: name, Reason: why}}, nil }
	for _, part := range append([]string{t.Metric, t.DownsampleInterval}, valuesOf(&t)...) {
		if strings.Contains(part, "$") || strings.Contains(part, "[[") {
			return refuse("the text " + part + " has variables of Grafana; replace them by values first")
		}
	}
	sub := map[string]any{
		"aggregator": t.Aggregator, "metric": t.Metric, "rate": t.ShouldComputeRate, "explicitTags": t.ExplicitTags,
		"rateOptions": map[string]any{"counter": t.IsCounter},
	}
	switch {
	case len(t.Filters) > 0: // Grafana sends tags only without filters
		sub["filters"] = t.Filters
	default:
		sub["tags"] = t.Tags
	}
	if !t.DisableDownsampling {
		if t.DownsampleInterval == "" {
			return refuse("Grafana chooses the interval of the downsampling by the width of the panel; set one")
		}
		sub["downsample"] = t.DownsampleInterval + "-" + t.DownsampleAggregator
		if fill := t.DownsampleFillPolicy; fill != "" && fill != "none" {
			sub["downsample"] = fmt.Sprint(sub["downsample"], "-", fill)
		}
	}
	body, err := json.Marshal(map[string]any{"start": "1h-ago", "queries": []any{sub}})
	if err != nil {
		return nil, err
	}
	q, err := p.JSON(body)
	if err != nil {
		return nil, fmt.Errorf("the target %s: %w", name, err)
	}
	return translateAll(q, false), nil
}

// valuesOf returns the tags and filters of a target, which may contain variables.
func valuesOf(t *target) (out []string) {
	for key, value := range t.Tags {
		out = append(out, key, value)
	}
	for _, f := range t.Filters {
		out = append(out, string(f))
	}
	return out
}
