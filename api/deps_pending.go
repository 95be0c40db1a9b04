package api

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/promql"
)

// WriteResult reports what became of a request.
type WriteResult struct {
	Accepted, Rejected int
	Reasons            map[string]int
	First              string
}

// Metadata is what a sender said about a metric.
type Metadata struct{ Type, Help, Unit string }

// Engine evaluates PromQL.
type Engine interface {
	Instant(ctx context.Context, r InstantRequest) (*QueryResult, error)
	Range(ctx context.Context, r RangeRequest) (*QueryResult, error)
}

// InstantRequest asks for one evaluation.
type InstantRequest struct {
	Query string
	Time  time.Time
}

// RangeRequest asks for a grid of evaluations.
type RangeRequest struct {
	Query      string
	Start, End time.Time
	Step       time.Duration
}

// QueryResult is the answer.
type QueryResult struct{ *promql.Result }
