// Package head keeps the samples that the tables do not hold yet: one row for each series and hour.
//
// A row takes samples in any order. The newest twelve rest raw in a tail; full tails, and those of rows that their series
// has left for a later hour, are packed as runs into blocks of slabs without pointers, which the garbage collector does not
// look into. A [Registry] finds a series by a hash of the bytes that a sender wrote for its labels.
//
// Rows are counted by hour, so that readers of hours that have none need not ask series by series ([Head.Holds]).
//
// It knows numbers (refs), hours and samples; it does not know labels, tables or the log beyond the number of the
// segment that a row still needs.
//
// Invariants: what was appended is read back bit-exact until its row is freed; of several samples with one timestamp
// the last appended wins; a frozen row does not change.
//
// Concurrency: a Head is divided into stripes, each with its own lock; appends of one stripe exclude each other and
// reads. Registry look-ups take no lock; changes to it are the caller's to serialise, as its methods say.
package head
