// Package histmetrics records which metrics have native histograms, and in which hours. A reader asks it before it reads the
// family of histograms. So histograms do not slow down reads of other metrics.
//
// The set is in memory. Table meta has one small cell for each metric. [Set.Persist] writes the cells that lack hours. It
// runs before the first histograms of a metric and hour reach the data table. After a crash, the replay of the log marks
// lost hours again. [Set.Expire] removes a metric when all its hours are too old. Until then the set may name hours whose
// histograms have expired or were deleted.
//
// Concurrency: all methods may be called by any number of goroutines.
package histmetrics
