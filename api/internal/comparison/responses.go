package comparison

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Exchange is a request with Prometheus's response, normalised. It has no body if only the status is compared.
type Exchange struct {
	Request Request
	Code    int
	Body    json.RawMessage `json:",omitempty"`
}

// Record sends every request to Prometheus's handler.
func Record(prometheus http.Handler) ([]Exchange, error) {
	var recorded []Exchange
	for _, r := range Requests() {
		w := r.Send(prometheus)
		body, err := normalise(r, w.Code, w.Body.Bytes())
		if err != nil {
			return nil, err
		}
		recorded = append(recorded, Exchange{Request: r, Code: w.Code, Body: body})
	}
	return recorded, nil
}

// Write writes exchanges, one a line.
func Write(w io.Writer, recorded []Exchange) error {
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	for _, e := range recorded {
		if err := lines.Encode(e); err != nil {
			return err
		}
	}
	return nil
}

// Read reads the exchanges that Write wrote.
func Read(b []byte) (recorded []Exchange, err error) {
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, len(b)+1)
	for lines.Scan() {
		var e Exchange
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, err
		}
		recorded = append(recorded, e)
	}
	return recorded, lines.Err()
}

// Differences sends every request to h and describes each response that differs from Prometheus's.
func Differences(h http.Handler, recorded []Exchange) (list []string) {
	requests := Requests()
	if len(requests) != len(recorded) {
		return []string{fmt.Sprintf("%d responses recorded for %d requests; record them again", len(recorded), len(requests))}
	}
	for i, r := range requests {
		want := recorded[i]
		if want.Request != r {
			return append(list, fmt.Sprintf("the response to %s is not recorded; record them again", r))
		}
		w := r.Send(h)
		body, err := normalise(r, w.Code, w.Body.Bytes())
		switch {
		case err != nil:
			list = append(list, err.Error())
		case w.Code != want.Code:
			list = append(list, fmt.Sprintf("%s\n  status %d, Prometheus answers %d\n  %s\n  %s",
				r, w.Code, want.Code, truncate(body), truncate(want.Body)))
		case !Equal(body, want.Body):
			list = append(list, fmt.Sprintf("%s\n  answer     %s\n  Prometheus %s", r, truncate(body), truncate(want.Body)))
		}
	}
	return list
}

func truncate(b []byte) []byte { return b[:min(len(b), 2000)] }

// normalise rewrites a response so that equal responses have equal bytes. It sorts warnings, and also series if their order has
// no meaning. It leaves out times of the machine.
func normalise(r Request, code int, body []byte) (json.RawMessage, error) {
	if code == http.StatusNotFound || code == http.StatusMethodNotAllowed || len(body) == 0 {
		// Prometheus answers these requests in plain text, so only the status is compared.
		return nil, nil
	}
	var response map[string]any
	if err := json.Unmarshal(body, &response); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", r, err, truncate(body))
	}
	if text, ok := response["error"].(string); ok {
		// Our engine also suggests a step.
		response["error"] = regexp.MustCompile(`\(\?step=\w+\)`).ReplaceAllString(text, "(?step=XX)")
	}
	switch data := response["data"].(type) {
	case map[string]any:
		normaliseResult(r, data)
	case []any:
		if r.Path == "series" {
			sortByText(data)
		}
	}
	for _, name := range []string{"warnings", "infos"} {
		if list, ok := response[name].([]any); ok {
			sortByText(list)
		}
	}
	return json.Marshal(response)
}

// normaliseResult normalises the result of an expression.
func normaliseResult(r Request, data map[string]any) {
	if stats, ok := data["stats"].(map[string]any); ok {
		if timings, ok := stats["timings"].(map[string]any); ok {
			stats["timings"] = slices.Sorted(maps.Keys(timings))
		}
	}
	if kind := data["resultType"]; kind != "vector" && kind != "matrix" {
		return
	}
	if text := r.Query + r.Form; strings.Contains(text, "sort") || strings.Contains(text, "topk") {
		return
	}
	if list, ok := data["result"].([]any); ok {
		sortByText(list)
	}
}

func sortByText(list []any) {
	slices.SortFunc(list, func(a, b any) int {
		// Values that were decoded from JSON can be encoded again.
		left, _ := json.Marshal(a)
		right, _ := json.Marshal(b)
		return bytes.Compare(left, right)
	})
}
