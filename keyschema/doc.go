// Package keyschema turns series, hours and samples into row keys, qualifiers and key ranges, and back.
//
// A row holds the samples of one series in one hour; its key is readable text:
//
//	http_requests_total#01#code=200,host=www.example.com:9100#9519999
//	metric              salt tags                             9,999,999 − hour
//
// A [Rule] decides the salt and the order of the tags for the metrics that its pattern matches, from some hour on; a
// [Schema] is a set of rules and knows which holds when. Old hours keep their old rules, nothing is rewritten.
// FORMAT.md draws all bytes.
//
// The package does no I/O, reads no clock and knows nothing of tables, caches or queries. Packed runs of samples are
// in package run below it.
//
// # Invariants
//
//   - Keys are printable ASCII of at most [KeyBytesMax] bytes with exactly three '#'. They round-trip for any bytes in
//     metric, names and values.
//   - A series has one key for each hour under each rule, and a key parses without its rule.
//   - The rows of a series are adjacent, newest first. [SeriesRange], [Rule.MetricRange] and [Rule.PromotedRange] hold
//     the rows they name and no other.
//   - What is stored never changes: escapes, salts, hashes and qualifiers are pinned by golden tests.
//
// # Concurrency
//
// All functions are pure. A Schema, and the Rules it hands out, may be used by any number of goroutines and must not
// be changed.
package keyschema
