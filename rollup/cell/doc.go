// Package cell encodes the states of a day's hours, or of a month's days, into one table cell, and the native histograms of a
// day's hours into another. FORMAT.md of package rollup draws them.
//
// [Encoder.Append] turns states into columns of integers. It subtracts predictions that follow from earlier columns, and
// packs the residuals with package column. [Decoder.Decode] restores the wanted columns to a [rollup.Columns].
// [HistogramEncoder] and [HistogramDecoder] do so for histograms, as a chunk of package histchunk. The package
// knows no tables; the caller passes the row and qualifier that a cell is bound to.
//
// # Invariants
//
//   - Decoding returns the bits of the encoded states, or an error that wraps [ErrCorrupt], whatever the bytes.
//   - A cell is valid in its own row and qualifier only.
//   - Encoding is deterministic on every machine, and does not depend on earlier cells.
//
// # Concurrency
//
// An Encoder or Decoder belongs to one goroutine at a time.
package cell
