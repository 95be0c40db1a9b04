// Package tiers keeps the states of package rollup in a table of their own: of each series' hours and of its days.
//
// [Tiers] computes them once a day has closed, from the rows of the data table, and writes them over former ones; it
// gives them to queries ([Tiers.Read]), compares them with the rows ([Tiers.Verify]) and makes them anew
// ([Tiers.Rebuild]). What it reads and writes goes through the contract of package storage. It knows row keys, not labels;
// it does not know the samples in memory, nor does it evaluate queries.
//
// # What a reader may rely on
//
// A state that Read gives equals the rows of the data table. Nobody has to remember to say so when rows change: every
// write to the data table goes through the store that [Tiers.Guard] returns, which first marks the hours that have
// states as stale (in the row of the states itself, so that a reader sees state and mark together), then lets the write
// through. A day with very many of them is put aside as a whole instead, in the ledger, and so is one that has no
// states. Stale hours are unknown to readers until the job has computed them again.
//
// Rows that are gone without a mark were taken by retention, whatever the ages are by now: states stand for them alone, and
// stay until they are too old themselves. So who removes rows otherwise does so through the guard, or is a deletion.
//
// A reader who also reads samples in memory asks these first, as for rows: an hour that has samples there is not to be
// taken from here.
//
// What was read may be kept with the epochs of [Tiers.AppendEpochs]: every mark, every cell and every change of the ledger
// gives its days and months new ones, before readers can see it and again afterwards.
//
// # Deletions
//
// Deletions of samples mark nothing. A cell of states says which deletion it is as of (a number), and readers leave out states
// that may stand for what was deleted later. The job computes these anew, and removes them where retention has taken the
// samples; then deletions need not be remembered any more ([Tiers.ApplyDeletions]). It does so only as of deletions that are
// durable and that no reader is left without.
//
// # Durability
//
// Marks need no sync of their own. They are applied before the rows they announce, in the same store. A writer with a log
// cuts it only after a sync of the store, which keeps the marks as well; if power is lost before, the log brings the
// samples back, and with them the marks. Other writers sync the store before they report success, which keeps both.
//
// The ledger, one cell of the meta table, holds the last closed day and which days and months are to be computed. It is
// synced before the first cell of a day is written and after the last. A crash in between leaves the day in the ledger:
// it is computed again, with the same result.
//
// # Several processes
//
// With [Options.Shared] any number of processes write, and one at a time computes; what each of them must do is said there.
//
// # Concurrency
//
// All methods may be called at once. One pass of the job runs at a time, in the goroutine that [Tiers.Start] starts or
// that calls [Tiers.Step]. Writes through the guard wait for the job only while it hands over a batch of cells.
//
// FORMAT.md of package rollup draws what is stored.
package tiers
