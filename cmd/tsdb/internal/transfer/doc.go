// Package transfer imports the samples of other databases, and exports samples.
//
// An import goes from a [Source] to a [Sink]. The source divides its samples into parts, always the same ones in the same order.
// A part has a few thousand series and samples. [Import] writes several parts at once. A file records the position up to which
// all parts are durable, so that the same command continues there after a crash. At the end, [Verify] reads the source again and
// compares each sample with the destination.
package transfer
