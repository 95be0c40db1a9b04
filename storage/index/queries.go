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

// ResultKind is the kind of result that a look-up returns.
type ResultKind = lookup.ResultKind

// Kinds of results.
const (
	ResultSeries = lookup.ResultSeries
	ResultNames  = lookup.ResultNames
	ResultValues = lookup.ResultValues
)

// JoinKeys are the label values that the series of a join must match.
type JoinKeys = lookup.JoinKeys

// Budget accounts for the memory of a look-up; nil allows everything.
type Budget = lookup.Budget
