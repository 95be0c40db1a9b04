// Package retention frees the space of what is older than its metric is kept, and says what that costs.
//
// Three things enforce ages. Reads hide what is too old at once: promql samples, rollup/store states, index series and
// labels. The longest age of a tier among all rules is the policy of its families: an engine drops whole partitions by it.
// What a rule keeps shorter than others is freed here: a [Sweeper] drops, for each closed day that has become too old, the
// rows of each metric of the rule, by one range deletion a metric and day, and has the engine merge the files.
//
// # What is never dropped
//
// A day is dropped when all of it, and [Options.Grace] more, is older than the rule's age, and when nothing is to be
// computed from it any more ([Options.Needed]). A range that is dropped holds one metric only, so that it does not matter
// what is written beside it meanwhile; and of the metric nothing as old as that is accepted any more.
//
// # Crashes
//
// Dropping again does no harm. How far each rule has been swept is stored, one cell of the meta table, once the drops are
// durable; it is a hint that saves looking at days once more. When rules or ages have changed it is void. A cell that is
// damaged counts as none.
//
// # Concurrency
//
// All methods may be called at once; one sweep runs at a time.
//
// It is not a policy of its own: package keyschema resolves rules, package storage says what a span is.
package retention
