package ingest

import (
	"halite/ingest/head"
	"halite/ingest/remotewrite"
)

// lookups are series of a request that wait to be looked up together, because they come in an unknown order. Their
// samples are the last ones taken, without a ref.
type lookups struct {
	keys [head.FindBatch]head.Key
	refs [head.FindBatch]uint32
	n    int
	mark int // of the first one's message
}

// postpone takes the sample of a series that is to be looked up later. It reports whether it did: the caller must find
// the series itself if its sample will be rejected.
func (r *request) postpone(w *remotewrite.Walker, labels []byte, s remotewrite.Sample) bool {
	if !r.cursor.Lost() || s.TsMs < r.minMs || s.TsMs > r.maxMs {
		return false
	}
	l := &r.lookups
	if l.n == 0 {
		l.mark = w.Mark()
	}
	l.keys[l.n] = r.i.registry.Hash(labels)
	l.n++
	r.samples = append(r.samples, head.Sample{TsMs: s.TsMs, Value: s.Value})
	if l.n == len(l.keys) {
		r.lookUp(w)
	}
	return true
}

// lookUp gives the waiting samples their refs. If a series is not known, it forgets them, and the walker goes back to the
// first one's message to read them one by one; rewound is true then.
func (r *request) lookUp(w *remotewrite.Walker) (rewound bool) {
	l := &r.lookups
	n := l.n
	l.n = 0
	if n == 0 {
		return false
	}
	first := len(r.samples) - n
	if !r.cursor.FindAll(l.keys[:n], l.refs[:n]) {
		r.samples = r.samples[:first]
		r.series -= n
		w.Rewind(l.mark)
		return true
	}
	for i := range n {
		r.samples[first+i].Ref = l.refs[i]
	}
	return false
}
