// Package memory is the index of the active series.
//
// It has a [Table] for each metric: a row for each series and a column of value ids for each label name. A [Dictionary] for
// each label name, which all tables share, numbers the values. Rows are appended under a lock and read without one. Each
// open day also has a word for each [Ref], with the hours in which the series has samples.
//
// The package uses neither tables of the store nor segments. For each open day it keeps the end of the journal, because the
// end must change together with the day's hours.
package memory
