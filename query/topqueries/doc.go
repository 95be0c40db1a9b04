// Package topqueries counts what queries cost, by their normalised text: how often they run, how long, how many samples they read
// and how much memory they take. Its memory is bounded.
package topqueries
