// Package storage is the wide-column contract of every engine: the model and limits of Bigtable.
//
// A [Store] has tables. A [Table] is a sorted map from row keys to cells. A cell is addressed by family, qualifier and
// timestamp (whole milliseconds, newest first) and holds bytes. A mutation of one row is atomic; no mutation spans rows.
// Each family has a garbage-collection policy and a kind: plain, or an aggregate whose cells merge.
//
// The package has rows and cells, but no series or samples. It defines the value types, the limits of Bigtable, and errors
// that say what a caller can do. [CheckMutation] enforces the limits for every engine, so code that works on one machine
// works on Bigtable too. Engines are in the folders below it. Package storagetest has the suite that each engine passes.
//
// Concurrency: any number of goroutines may use a Store and its Tables. A RowIter belongs to one goroutine.
package storage
