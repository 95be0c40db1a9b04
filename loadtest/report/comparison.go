package report

import "halite/loadtest/measure"

// Comparison is the outcome of the same load on several targets.
type Comparison struct {
	// Targets are in the order in which they were given. The others are compared with the first.
	Targets []*Report       `json:"targets"`
	Queries []QueryCompared `json:"queries,omitempty"`
	Suite   *Suite          `json:"suite,omitempty"`
}

// Failed reports whether any target failed or answered a query with an error.
func (c *Comparison) Failed() bool {
	for _, r := range c.Targets {
		if r.Failed() {
			return true
		}
	}
	if c.Suite.failed() {
		return true
	}
	for _, q := range c.Queries {
		for _, t := range q.Targets {
			if t.Errors > 0 {
				return true
			}
		}
	}
	return false
}

// QueryCompared is the outcome of one dashboard query on all targets.
type QueryCompared struct {
	Name    string        `json:"name"`
	Class   string        `json:"class"`
	Targets []QueryTarget `json:"targets"`
}

// QueryTarget is the outcome of a query on one target.
type QueryTarget struct {
	Target  string            `json:"target"`
	Errors  int64             `json:"errors"`
	Latency measure.Quantiles `json:"latency"`
	// CPUMs is the mean CPU time of the server's process per call. It is 0 if the target has no pid.
	CPUMs float64 `json:"cpu_ms"`
	// Series and Points are the totals of all responses. Difference describes the first difference to the first target's
	// responses. It is empty if all responses are equal.
	Series     int    `json:"series"`
	Points     int    `json:"points"`
	Difference string `json:"difference,omitempty"`
}
