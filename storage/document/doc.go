// Package document reads and writes the cells of table meta whose value is a JSON document.
//
// Such cells are few, small and read by people, too: whose the tables are, schema rules, ages, ledgers, what senders say about
// metrics. Several processes, of different builds, may share them, so whatever is read is suspected: a [Cell] bounds the
// document's size before it is parsed, refuses one of a later version by name, and says in each error which table, row and
// qualifier it speaks of.
//
//	cell  = document
//	table = meta, family m, timestamp 0
//
// # Versions
//
// A document is of version 1 unless it is an object with a member "version" that says more. Members that a build does not know
// are ignored: whoever adds one that others must not ignore counts the version up. A document that is a list has no such
// member; one of a later version is an object in its place.
//
// It is not a cache, and it does not know what documents mean: who reads one checks that its numbers are in range.
//
// All functions may be called at once.
package document
