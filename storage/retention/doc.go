// Package retention drops data that is older than the retention of its metric, and reports the size of the data by rule.
//
// Three places enforce retention. Reads hide data that is too old at once. The longest age of a tier among all rules is the
// policy of its families: the engine drops whole partitions by it. Native histograms have the policy of raw samples. A [Sweeper]
// drops the data of rules with a shorter age. On each closed day that is too old, it deletes the rows of each metric by one
// range deletion. Then it makes the engine merge the files.
//
// # Guarantees
//
// A sweep drops a day when the whole day, plus [Options.Grace], is older than the rule's age, and no later computation reads
// it ([Options.Needed]). Exemplars and start times of a metric are dropped with its raw samples. If the metric has only
// histograms on a day, they are dropped with the histograms. A dropped range holds only one metric, so concurrent writes to
// other metrics do not matter. Ingestion accepts no sample of the metric that is as old as the range. A change of the
// retention ([Sweeper.Change]) ends a sweep before its next drop. It lengthens policies before ingestion accepts older samples.
//
// # Crashes
//
// Dropping a range twice does no harm. Once the drops are durable, a sweep stores the progress of each rule in one cell of the
// table meta. The progress only saves work: a sweep ignores it if it is damaged or belongs to other rules or ages.
//
// Rows that are in memory when the ages change may be older than the new ages allow. The same holds for rows that a start after
// a long stop reads back from the log. So a process stores no progress within [Options.Grace] after its start and after a
// change.
//
// # Concurrency
//
// All methods may be called concurrently; one sweep runs at a time.
//
// Package keyschema resolves the rules. Package storage defines spans.
package retention
