package load

import (
	"math/rand/v2"

	"github.com/klauspost/compress/snappy"

	"halite/loadtest/acked"
)

// sample is one sample to send.
type sample struct {
	labels []byte // encoded
	tsMs   int64
	value  float64
	id     acked.WriteID
}

// Request is an encoded request.
type Request struct {
	Body []byte
	IDs  []acked.WriteID // of its samples, in order
	// DueMs is the newest timestamp of the samples that are sent in order. It decides when the request is due; 0 means
	// at once.
	DueMs int64
}

// batch collects the samples of one request.
type batch struct {
	samples []sample
	dueMs   int64
	raw     []byte
}

// add adds a sample. inOrder is false for samples that were delayed.
func (b *batch) add(s sample, inOrder bool) {
	b.samples = append(b.samples, s)
	if inOrder {
		b.dueMs = max(b.dueMs, s.tsMs)
	}
}

// encode moves the samples of the batch into a request. A non-nil shuffle permutes them. It may swap two samples of a
// series; the stream never puts two writes of the same sample in one shuffled batch.
func (b *batch) encode(r *Request, shuffle *rand.Rand) {
	if shuffle != nil {
		shuffle.Shuffle(len(b.samples), func(i, j int) { b.samples[i], b.samples[j] = b.samples[j], b.samples[i] })
	}
	b.raw, r.IDs = b.raw[:0], r.IDs[:0]
	for i := range b.samples {
		s := &b.samples[i]
		b.raw = appendSample(b.raw, s.labels, s.tsMs, s.value)
		r.IDs = append(r.IDs, s.id)
	}
	r.Body = snappy.Encode(r.Body[:cap(r.Body)], b.raw)
	r.DueMs = b.dueMs
	b.samples, b.dueMs = b.samples[:0], 0
}
