// Package bigtable is the engine on Google Cloud Bigtable: the wide-column contract of package storage with the same
// tables, row keys and cells as the embedded engine, kept by the service.
//
// The package is a thin layer on the official client. It turns row sets into requests the service takes, mutations into
// bulk requests, GC policies into filters (the service frees garbage within days and shows it until then, the contract
// hides it at once), and the service's errors into those of package storage. It caches nothing but table schemas.
//
// What the service must be told: use an app profile with single-cluster routing. Only that gives read-your-writes, which
// the contract promises and the catalogue relies on, and only that admits CheckAndApply and AddToCell.
//
// What is weaker than on the embedded engine:
//   - Load makes rows visible one after another, and a failed Load may leave some of them behind. Each row is atomic.
//   - A row whose error wraps storage.ErrUnavailable may have been applied all the same: its answer can have been lost.
//     Repeating it is safe unless it adds to a sum. Sums are never retried here; read before adding again.
//   - DropRows of a range that is neither a prefix nor everything deletes row by row; rows written into the range at the
//     same time may go or stay.
//   - A read sees each row whole, but rows of one read may be of different moments.
//   - DropCells deletes cell by cell, and SpanBytes and Days are not supported: the service does not tell.
//   - Garbage is freed when the service sees fit: CollectGarbage does nothing, and deleting the newest version of a cell
//     may bring back an older one that a policy on versions had hidden.
//   - The load in Tablets counts what this process did; splits keep the sum, not the exact place.
//
// Schema: each table has one more family without cells whose name tells the version of this layout and whether row keys
// end in an hour ("halite.v1", "halite.v1.hours"). It is made together with the table, so a table is never half marked,
// and a table without the mark is not ours.
//
// Retries: reads and mutations that may run twice are retried by the client, with backoff, while the deadline of the
// call lasts. CheckAndApply, mutations that add to sums, and table administration run once. Every call has a deadline;
// a scan has one on progress instead of one on the whole.
//
// Credentials come from the standard environment (GOOGLE_APPLICATION_CREDENTIALS, gcloud, or the machine's account).
// BIGTABLE_EMULATOR_HOST turns all of that off and talks to an emulator in the clear.
package bigtable
