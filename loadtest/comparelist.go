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

// ListedAnswer says how the answers of two servers to a query differ.
type ListedAnswer struct {
	// Difference is "" if the answers are equal.
	Difference string
	// Series and Points are the size of the first answer.
	Series, Points int
	// Took is the time of the first server and of the second one, the best of all repeats.
	Took [2]time.Duration
}

// CompareListed sends the same query to two servers several times, in alternation. It compares their last answers. Values
// may differ by a relative tolerance.
func CompareListed(ctx context.Context, servers [2]*client.Querier, q ListedQuery, repeats int, tolerance float64) ListedAnswer {
	var out ListedAnswer
	var bodies [2][]byte
	for n := range repeats {
		for i, server := range servers {
			began := time.Now()
			body, err := server.Get(ctx, q.Path, q.Params)
			if err != nil {
				out.Difference = [2]string{"the first server failed: ", "the second server failed: "}[i] + err.Error()
				return out
			}
			if took := time.Since(began); n == 0 || took < out.Took[i] {
				out.Took[i] = took
			}
			bodies[i] = body
		}
	}
	first, err := parseAnswer(bodies[0], false)
	if err != nil {
		if !bytes.Equal(bodies[0], bodies[1]) {
			out.Difference = "answers that cannot be compared: " + err.Error()
		}
		return out
	}
	out.Series, out.Points = answerSize(first)
	second, err := parseAnswer(bodies[1], false)
	if err != nil {
		out.Difference = "the second answer: " + err.Error()
		return out
	}
	out.Difference = describeDifference(first, second, tolerance)
	if out.Difference == "" && bytes.Contains(bodies[0], []byte(`"histogram`)) && !bytes.Equal(bodies[0], bodies[1]) {
		out.Difference = "answers with native histograms are not the same text"
	}
	return out
}
