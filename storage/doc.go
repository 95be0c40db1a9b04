// Package storage is the wide-column contract that every engine fulfils: Bigtable's model and limits, nothing richer.
//
// A [Store] holds tables; a [Table] is a sorted map from row key to cells; a cell is addressed by family, qualifier and
// timestamp (whole milliseconds, newest first) and holds bytes. The mutation of one row is atomic; nothing spans rows.
// Families are declared with a garbage-collection policy and a kind: plain, or an aggregate whose cells merge.
//
// The package knows rows and cells, never series or samples. It contains the value types, the limits that Bigtable
// imposes (enforced for every engine by [CheckMutation], so that nothing works locally that fails in the cloud) and the
// errors that tell a caller what to do. Engines live in the folders below it, and storagetest holds the suite that each
// engine passes.
//
// Concurrency: a Store and its Tables may be used by any number of goroutines; a RowIter belongs to one.
package storage
