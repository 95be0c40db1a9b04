// Package job computes the rollup states that package store keeps.
//
// After a day has closed, [Job] computes the states of its hours from the rows of the data table. It overwrites the
// stored states. Once a month has closed, it joins hours to days. It computes states again if late samples mark them
// dirty or deletions invalidate them ([Job.ApplyDeletions]). [Job.Verify] compares states with their samples,
// [Job.Rebuild] computes them again. The package knows row keys but not labels, and does not see samples in memory.
//
// # Deletions
//
// A pass computes states that reflect only durable deletions that every running query already sees. It removes states
// whose samples are all deleted. When all states reflect a deletion, the pass stores it as the deletion horizon of the
// manifest. Then the deletion may be dropped.
//
// # Crashes
//
// A pass ends with a change of the manifest that records it. After a crash before that, the next run repeats the pass
// with the same result.
//
// # Concurrency
//
// All methods are safe for concurrent use. One pass runs at a time, in the goroutine that [Job.Start] starts or that
// calls [Job.Step], [Job.Rebuild], [Job.Verify] or [Job.ApplyDeletions].
package job
