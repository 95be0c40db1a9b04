// Package store keeps rollup states in their own table: the states of each series' hours and days.
//
// [Store] reads states for queries ([Store.Read]), and marks them dirty when their samples change ([Store.Invalidating]). It
// also keeps the manifest, the list of days and months to compute. Package job computes the states. Both use the tables
// through the contract of package storage. They use row keys but not labels, do not see samples in memory, and evaluate no
// queries.
//
// # Guarantees to readers
//
// A state that Read returns equals the rows of the data table. All writes to the data table go through the store that
// [Store.Invalidating] returns. It first marks the hours that have states as dirty, and then writes the rows. The marks
// are in the row of the states, so a reader sees both together. The manifest records a day with many dirty series, or
// without states, as a whole. Readers see dirty hours as unknown until the job has computed them again.
//
// If a row has disappeared without a mark, retention has dropped it, even if the current retention would keep it. Its
// state stays until the state itself is too old. So every other removal of rows goes through the invalidating store or
// is a deletion.
//
// A reader that also reads samples in memory reads these first. It does not use the state of an hour with samples there.
//
// Readers may cache states together with the versions of [Store.AppendVersions]. Every mark, every cell and every change
// of the manifest gives its days and months new versions, before readers can see it and again afterwards.
//
// # Deletions
//
// A deletion of samples marks nothing. Each cell of states stores a deletion horizon: the last deletion that the states
// reflect. Readers ignore states that may contain samples deleted later. The job computes these states again, or
// removes them where retention has dropped the samples.
//
// # Native histograms
//
// A cell next to the states of a day holds the native histograms that they keep ([Store.ReadHistograms]). Readers use it
// only for times whose histograms retention has dropped, so it may be dirty. A deletion hides each of its histograms by
// time.
//
// # Durability
//
// Marks need no sync of their own. They are applied before the rows that they announce, in the same store. A writer with
// a log truncates it only after a sync of the store, which also makes the marks durable. If power is lost earlier, the log
// restores the samples, and with them the marks. Other writers sync the store before they report success.
//
// The manifest is one cell of the meta table. It is synced before the first cell of a day is written and after the last
// one. After a crash in between, the manifest still lists the day, and the job computes it again with the same result.
//
// # Several processes
//
// With [Options.Shared], any number of processes write, and one at a time computes. [Shared] describes their protocol.
//
// # Concurrency
//
// All methods of Store are safe for concurrent use, except those that say otherwise. Writes wait for the job only while
// it writes a batch of cells.
//
// FORMAT.md of package rollup describes the stored bytes.
package store
