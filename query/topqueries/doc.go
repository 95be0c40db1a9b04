// Package topqueries adds up the cost of queries by normalised text and tenant: runs, errors, time, samples and peak
// memory. [Tracker.Add] takes a finished query, and [Tracker.List] returns the queries with the highest cost.
package topqueries
