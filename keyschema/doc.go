// Package keyschema turns series, hours and samples into row keys, qualifiers and key ranges, and back.
//
// A row holds the samples of one series in one hour; its key is readable text:
//
//	http_requests_total#01#code=200,host=www.example.com:9100#9519999
//	metric              salt tags                             9,999,999 − hour
//
// A [Rule] decides the salt and the order of the tags for the metrics that its pattern matches, from an hour on. A
// [Schema] is a set of rules and picks the rule for a metric and an hour. Old hours keep their old rules, and nothing is
// rewritten. FORMAT.md draws all bytes.
//
// The package does no I/O, reads no clock and does not know tables, caches or queries. Package chunk below it encodes the
// samples of a row.
//
// # Invariants
//
//   - Keys are printable ASCII of at most [KeyBytesMax] bytes with exactly three '#'. They round-trip for any bytes in
//     metric, names and values.
//   - Under each rule a series has one key per hour. A key parses without its rule.
//   - The rows of a series are adjacent, newest first. [SeriesRange], [Rule.MetricRange] and [Rule.PromotedRange] hold
//     the rows that they name and no other.
//   - Golden tests pin stored bytes: escapes, salts, hashes and qualifiers.
//
// # Concurrency
//
// All functions are pure. A Schema and the Rules that it returns are safe for concurrent use; callers must not change them.
package keyschema
