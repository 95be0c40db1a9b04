package tombstone

import (
	"slices"

	"halite/keyschema/exemplar"
	"halite/keyschema/histchunk"
)

// recordChunks rewrites chunks of histograms and exemplars.
type recordChunks struct {
	histogramDecoder histchunk.Decoder
	histogramEncoder histchunk.Encoder
	histogramBuffer  []histchunk.Sample
	exemplarDecoder  exemplar.Decoder
	exemplarEncoder  exemplar.Encoder
	exemplarBuffer   []exemplar.Exemplar
}

// histograms appends a chunk without its deleted histograms to dst. It appends nothing if all histograms or no histograms
// are deleted. It returns the number of remaining histograms and of all histograms.
func (r *recordChunks) histograms(
	dst, chunk []byte, startMs int64, by []*Tombstone,
) (out []byte, left, all int, err error) {
	samples, err := r.histogramDecoder.Decode(chunk, startMs, r.histogramBuffer[:0])
	if err != nil {
		return dst, 0, 0, err
	}
	r.histogramBuffer = samples
	defer clear(samples)
	all = len(samples)
	kept := slices.DeleteFunc(samples, func(s histchunk.Sample) bool { return deleted(by, s.TsMs) })
	if left = len(kept); left > 0 && left < all {
		dst, err = r.histogramEncoder.Append(dst, startMs, kept)
	}
	return dst, left, all, err
}

// exemplars is histograms for a list of exemplars.
func (r *recordChunks) exemplars(
	dst, list []byte, startMs int64, by []*Tombstone,
) (out []byte, left, all int, err error) {
	exemplars, err := r.exemplarDecoder.Decode(list, startMs, r.exemplarBuffer[:0])
	if err != nil {
		return dst, 0, 0, err
	}
	r.exemplarBuffer = exemplars
	defer clear(exemplars)
	all = len(exemplars)
	kept := slices.DeleteFunc(exemplars, func(e exemplar.Exemplar) bool { return deleted(by, e.TsMs) })
	if left = len(kept); left > 0 && left < all {
		dst, err = r.exemplarEncoder.Append(dst, startMs, kept)
	}
	return dst, left, all, err
}
