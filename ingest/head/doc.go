// Package head keeps the samples that the tables do not hold yet: one row for each series and hour.
//
// A row takes samples in any order. Its newest samples, twelve at most, lie uncompressed in a tail. Full tails are packed as
// chunks into blocks of slabs. When a series begins a later hour, the tail of its previous row is packed too. Slabs contain
// no pointers, so the garbage collector does not scan them. A [Registry] finds a series by a hash of its encoded labels.
//
// The packed blocks of a row form a chain from the newest to the oldest. The length of a chunk follows the chunk. So a read
// of the last minutes loads only the last chunks. [Head.AppendBatch] reads several series and overlaps their cache misses.
//
// The head counts rows by hour, so readers can skip hours without rows and need not look up each series ([Head.Holds]).
//
// The head has refs, hours and samples, but neither labels nor tables. Of the log it has only the number of the oldest
// segment that a row needs.
//
// Invariants: appended samples read back bit-exact until their row is freed; among samples with one timestamp, the last
// appended one wins; a frozen row does not change.
//
// Concurrency: a Head consists of stripes, each with a lock. An append excludes other appends and reads of its stripe.
// Registry look-ups take no lock. The caller serializes changes to the registry, as its methods say.
package head
