// Package transfer brings the samples of other databases in, and takes samples out.
//
// An import goes from a [Source] to a [Sink]. The source divides its samples into parts, always the same ones in the same order.
// A part is a few thousand series and samples. [Import] writes several parts at once. It notes in a file up to which part all are
// durable, so that the same command goes on there after a crash. At the end, [Verify] reads the source again and compares each
// sample with what the destination has.
package transfer
