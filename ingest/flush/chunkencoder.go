package flush

import (
	"errors"

	"halite/ingest/head"
	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/keyschema/exemplar"
	"halite/keyschema/histchunk"
)

// chunkEncoder encodes rows of the head as chunks of the data table. load unpacks rows. append encodes one chunk; the caller
// repeats it while more returns true.
type chunkEncoder struct {
	// histogramBytesMax bounds a chunk of several histograms, below the largest value of a cell.
	histogramBytesMax int

	floats     chunk.Encoder
	histograms histchunk.Encoder
	exemplars  exemplar.Encoder

	tsMs     []int64
	values   []float64
	unpacked []histchunk.Sample // histograms that append has not encoded yet
	listed   []exemplar.Exemplar
}

// load unpacks the copied rows [from, to), which are of one series, hour and kind.
func (e *chunkEncoder) load(rows *head.Reader, kind keyschema.SampleKind, from, to int) (err error) {
	e.unpacked = nil
	switch kind {
	case keyschema.Histograms:
		e.unpacked, err = rows.Histograms(from, to)
	case keyschema.Exemplars:
		e.listed, err = rows.Exemplars(from, to)
	default:
		e.tsMs, e.values, err = rows.Columns(from, to)
	}
	return err
}

// append appends the chunk of the loaded rows. If the histograms are too large for one chunk, it encodes only the first
// ones.
func (e *chunkEncoder) append(dst []byte, kind keyschema.SampleKind, hourStartMs int64) (out []byte, err error) {
	switch kind {
	case keyschema.Histograms:
		n := len(e.unpacked)
		out, err = e.histograms.Append(dst, hourStartMs, e.unpacked[:n])
		for n > 1 && (errors.Is(err, histchunk.ErrTooLarge) || len(out)-len(dst) > e.histogramBytesMax) {
			n /= 2
			out, err = e.histograms.Append(dst, hourStartMs, e.unpacked[:n])
		}
		e.unpacked = e.unpacked[n:]
	case keyschema.Exemplars:
		out, err = e.exemplars.Append(dst, hourStartMs, e.listed)
	default:
		out, err = e.floats.Append(dst, hourStartMs, e.tsMs, e.values)
	}
	if err != nil {
		return dst, err
	}
	return out, nil
}

// more reports whether samples are left to encode.
func (e *chunkEncoder) more() bool { return len(e.unpacked) > 0 }
