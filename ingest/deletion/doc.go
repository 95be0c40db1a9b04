// Package deletion deletes samples: it plans a deletion, executes it, counts what one would delete, repeats those in the log
// after a crash, and cleans up after them.
//
// A deletion leaves a tombstone, which hides the samples from the moment it is in force. Two things are left for later:
//
//   - The index may list hours without samples. [Deleter.Maintain] removes them within [IndexDelay] and a run, and
//     [Deleter.Clean] at once. A metric that is deleted whole leaves the index before the deletion returns.
//   - The rows still hold the samples. [Deleter.Clean] rewrites them and drops the tombstones.
//
// A [Scanner] and [TableSizes] serve the mode without a log as well.
package deletion
