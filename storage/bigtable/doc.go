// Package bigtable is the engine on Google Cloud Bigtable. It implements the contract of package storage, with the same tables,
// row keys and cells as the embedded engine.
//
// The package is a thin layer on the official client. It converts row sets to requests within the service's limits,
// mutations to bulk requests, and the service's errors to errors of package storage. It applies GC policies to reads,
// because the service frees garbage within days but the contract hides garbage at once. It caches only table schemas.
//
// The service needs an app profile with single-cluster routing. Only such a profile gives read-your-writes, which the series
// index needs, and permits CheckAndApply and AddToCell.
//
// Promises that are weaker than in the embedded engine:
//   - Load makes rows visible one after another, and a failed Load may leave some of them behind. Each row is atomic.
//   - A row whose error wraps storage.ErrUnavailable may have been applied, because its reply can be lost. Repeating it is safe
//     unless it adds to a sum. This package never retries sums. A caller must read the sum before it adds again.
//   - DropRows deletes row by row unless the range is a prefix or the whole table. Rows that are written into the range at the
//     same time may survive or not.
//   - A read sees each row whole, but different rows may have the state of different moments.
//   - DropCells deletes cell by cell. SpanBytes and Days are not supported, because the service does not report these figures.
//   - The service chooses when to free garbage, and CollectGarbage does nothing. Deleting the newest version of a cell may bring
//     back an older version that a policy on versions had hidden.
//   - Loads in Tablets cover only this process. After a split, sums stay right but their place is approximate.
//
// Schema: each table has one more family without cells. Its name gives the version of this layout and says whether row keys end
// in an hour ("halite.v1", "halite.v1.hours"). It is created together with the table, so a crash leaves no unmarked table. A
// table without this family belongs to another program.
//
// Retries: the client retries reads, and mutations that may run twice, with backoff until the deadline of the call.
// CheckAndApply, mutations that add to sums, and table administration run once. Every call has a deadline. A scan has a deadline
// for its next message, not for the whole scan.
//
// Credentials come from the standard environment (GOOGLE_APPLICATION_CREDENTIALS, gcloud, or the machine's account).
// BIGTABLE_EMULATOR_HOST selects an emulator, without credentials or encryption.
package bigtable
