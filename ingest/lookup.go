package ingest

import (
	"halite/ingest/head"
	"halite/ingest/remotewrite"
)

// lookups are series of a request that wait for a common look-up, because they come in an unexpected order. Their samples are
// the last ones taken, with ref 0.
type lookups struct {
	keys [head.FindBatch]head.Key
	refs [head.FindBatch]uint32
	n    int
	mark int // of the first one's message
}

// postpone takes the sample of a series for a later look-up, and reports whether it did. It does not if the order is as
// expected, or if the time of the sample may be wrong: the caller then finds the series itself.
func (r *Request) postpone(w *remotewrite.Walker, labels []byte, s remotewrite.Sample) bool {
	if !r.cursor.Lost() || s.TsMs < r.minMs || s.TsMs > r.maxMs {
		return false
	}
	l := &r.lookups
	if l.n == 0 {
		l.mark = w.Mark()
	}
	l.keys[l.n] = r.w.registry.Hash(labels)
	l.n++
	r.samples = append(r.samples, head.Sample{TsMs: s.TsMs, Value: s.Value})
	if l.n == len(l.keys) {
		r.lookUp(w)
	}
	return true
}

// lookUp gives the waiting samples their refs. If a series is unknown, it drops them, rewinds the walker to the message of the
// first one, and returns true. The caller then reads them one by one.
func (r *Request) lookUp(w *remotewrite.Walker) (rewound bool) {
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
