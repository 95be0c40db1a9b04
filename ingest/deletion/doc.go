// Package deletion deletes samples. It plans and executes deletions, counts the samples that a deletion would delete,
// replays the deletions in the log, and cleans the tables afterwards.
//
// A deletion leaves a tombstone, which hides the samples from the moment it is in force. Two steps follow later:
//
//   - The index may list hours without samples. [Deleter.Maintain] removes them in its first run after [IndexDelay].
//     [Deleter.Clean] removes them at once. If a deletion covers a whole metric, the metric leaves the index at once.
//   - The rows still hold the samples. [Deleter.Clean] rewrites them and drops the tombstones.
//
// Mode direct uses [Scanner] and [TableSizes] too.
package deletion
