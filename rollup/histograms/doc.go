// Package histograms reduces the native histograms of an hour to the few histograms that its rollup state keeps.
//
// [Reduce] keeps the last histogram of an hour, and the last one before each counter reset inside the hour. It brings exponential
// buckets to [SchemaMax] and does not change custom buckets. All kept histograms are samples of the series at their own times, so
// Prometheus's engine evaluates them like raw samples. [Join] puts the hours of a day in order.
//
// # Counter resets
//
// The engine finds a reset where a bucket counts less than before. A kept histogram may be larger than the previous kept
// one although the counter was reset between them. Then it has the hint that it follows a reset. All other kept counters
// have no hint. So the engine compares their counts, even after a deletion of one of them.
//
// The package holds pure functions, which are safe for concurrent use.
package histograms
