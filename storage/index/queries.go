package index

import "halite/storage/index/lookup"

// lookups finds series and labels. Its methods are methods of Index.
type lookups = lookup.Reader

// Series is one label set found by a query.
type Series = lookup.Series

// Tenant describes how the labels of a series differ from the stored ones.
type Tenant = lookup.Tenant

// Alias describes the stored series behind a series with alias names.
type Alias = lookup.Alias

// Work counts what a look-up reads in the index.
type Work = lookup.Work

// Answer is what a look-up returns.
type Answer = lookup.Answer

// The answers of look-ups.
const (
	AnswerSeries = lookup.AnswerSeries
	AnswerNames  = lookup.AnswerNames
	AnswerValues = lookup.AnswerValues
)

// JoinKeys are the label values that the series of a join must match.
type JoinKeys = lookup.JoinKeys

// Budget accounts for the memory of a look-up; nil allows everything.
type Budget = lookup.Budget
