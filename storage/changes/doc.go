// Package changes versions time buckets, so that a cache can check whether an entry is still valid.
//
// A reader takes the versions of the buckets that it needs, reads, and stores the result with these versions. A later
// reader uses the entry only if the buckets still have the same versions. A writer raises the version before its change
// becomes visible and again afterwards. So an entry that was read during the change is not used after it.
//
// Concurrency: a Clock is safe for concurrent use.
package changes
