package loadtest

import (
	"bytes"
	"context"
	"net/url"
	"time"

	"halite/loadtest/client"
)

// ListedQuery is one query that two servers answer.
type ListedQuery struct {
	// Path is the path of the API, and Params are its parameters.
	Path   string
	Params url.Values
}

// ListedResult says how the responses of two servers to a query differ.
type ListedResult struct {
	// Difference is "" if the responses are equal. If Failed is set, it says which servers failed, and why.
	Difference string
	Failed     bool
	// Series and Points are the size of the first response.
	Series, Points int
	// Took is the time of the first server and of the second one, the best of all repeats.
	Took [2]time.Duration
}

// CompareListed sends the same query to two servers several times, in alternation. It compares their last responses. Values
// may differ by a relative tolerance.
func CompareListed(ctx context.Context, servers [2]*client.Querier, q ListedQuery, repeats int, tolerance float64) ListedResult {
	var out ListedResult
	var bodies [2][]byte
	for n := range repeats {
		var failures [2]error
		for i, server := range servers {
			began := time.Now()
			bodies[i], failures[i] = server.Get(ctx, q.Path, q.Params)
			if took := time.Since(began); n == 0 || took < out.Took[i] {
				out.Took[i] = took
			}
		}
		if out.Difference = describeFailures(failures); out.Difference != "" {
			out.Failed = true
			return out
		}
	}
	first, err := parseResponse(bodies[0], false)
	if err != nil {
		if !bytes.Equal(bodies[0], bodies[1]) {
			out.Difference = "responses that cannot be compared: " + err.Error()
		}
		return out
	}
	out.Series, out.Points = responseSize(first)
	second, err := parseResponse(bodies[1], false)
	if err != nil {
		out.Difference = "the second response: " + err.Error()
		return out
	}
	out.Difference = describeDifference(first, second, tolerance)
	return out
}

// describeFailures says which servers failed, and why. It returns "" if none did.
func describeFailures(failures [2]error) string {
	switch first, second := failures[0], failures[1]; {
	case first != nil && second != nil:
		return "both servers failed: " + first.Error()
	case first != nil:
		return "the first server failed: " + first.Error()
	case second != nil:
		return "the second server failed: " + second.Error()
	}
	return ""
}
