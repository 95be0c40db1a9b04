// Package jsoncell reads and writes cells of table meta whose value is a JSON document.
//
// These cells are few and small, and operators also read them: table ownership, schema rules, retention, sweep progress,
// metric metadata. Processes of different builds may share them, so a reader trusts no cell. A [Cell] bounds the size of a
// document before it parses it. It refuses a document of a newer version. Each error names table, row and qualifier.
//
//	cell  = document
//	table = meta, family m, timestamp 0
//
// # Versions
//
// A document has version 1 unless it is an object whose member "version" is higher. A build ignores unknown members. A
// change that older builds must not ignore raises the version. A list has no such member, so a newer version of a list is
// an object.
//
// The package does not cache, and does not interpret a document. The caller checks the ranges of numbers.
//
// All functions are safe for concurrent use.
package jsoncell
