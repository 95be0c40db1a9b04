package resultcache

import (
	"encoding/binary"
	"math"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
)

// stored is a result in the cache. Each series has a value for each step from its first to its last; a stale marker encodes
// a missing value. Values stay encoded until a query needs them.
type stored struct {
	generation      uint64
	startMs, stepMs int64
	steps           int
	series          []storedSeries
}

type storedSeries struct {
	labels labels.Labels
	first  int
	values []byte // 8 bytes each
}

func (s *stored) at(k int) int64 { return s.startMs + int64(k)*s.stepMs }

func (s *stored) lastMs() int64 { return s.at(s.steps - 1) }

// appendStored encodes a matrix. ok is false if a point does not lie on a step of the grid, or if the matrix has histograms or
// stale markers.
func appendStored(
	dst []byte, generation uint64, startMs, stepMs int64, steps int, m promql.Matrix,
) (_ []byte, ok bool) {
	dst = binary.LittleEndian.AppendUint64(dst, generation)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(startMs))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(stepMs))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(steps))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(m)))
	for i := range m {
		s := &m[i]
		if len(s.Histograms) > 0 || len(s.Floats) == 0 {
			return dst, false
		}
		dst = appendLabels(dst, s.Metric)
		first := (s.Floats[0].T - startMs) / stepMs
		last := (s.Floats[len(s.Floats)-1].T - startMs) / stepMs
		if first < 0 || last >= int64(steps) {
			return dst, false
		}
		dst = binary.LittleEndian.AppendUint32(dst, uint32(first))
		dst = binary.LittleEndian.AppendUint32(dst, uint32(last-first+1))
		next := s.Floats[0].T
		for _, p := range s.Floats {
			if math.Float64bits(p.F) == value.StaleNaN || (p.T-startMs)%stepMs != 0 {
				return dst, false
			}
			for ; next < p.T; next += stepMs {
				dst = binary.LittleEndian.AppendUint64(dst, value.StaleNaN)
			}
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(p.F))
			next += stepMs
		}
	}
	return dst, true
}

func appendLabels(dst []byte, ls labels.Labels) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(ls.Len()))
	ls.Range(func(l labels.Label) {
		dst = appendText(dst, l.Name)
		dst = appendText(dst, l.Value)
	})
	return dst
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// storedHeaderBytes is the size of the part before the series.
const storedHeaderBytes = 3*8 + 2*4

// storedReader decodes a result. Only this process writes entries, so it treats a short entry as missing.
type storedReader struct {
	b   []byte
	bad bool
}

func (r *storedReader) next(n int) []byte {
	if r.bad || n < 0 || n > len(r.b) {
		r.bad = true
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *storedReader) u64() uint64 {
	if b := r.next(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *storedReader) u32() int {
	if b := r.next(4); b != nil {
		return int(binary.LittleEndian.Uint32(b))
	}
	return 0
}

func (r *storedReader) text() string {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > uint64(len(r.b)) {
		r.bad = true
		return ""
	}
	r.next(size)
	return string(r.next(int(n)))
}

// parseStored parses an encoded result, which keeps b. ok is false if b is not a result.
func parseStored(b []byte) (*stored, bool) {
	r := storedReader{b: b}
	s := &stored{generation: r.u64(), startMs: int64(r.u64()), stepMs: int64(r.u64()), steps: r.u32()}
	n := r.u32()
	if r.bad || s.stepMs <= 0 || s.steps <= 0 || n > len(r.b) {
		return nil, false
	}
	s.series = make([]storedSeries, n)
	builder := labels.NewScratchBuilder(16)
	for i := range s.series {
		builder.Reset()
		for range r.u32() {
			name := r.text()
			builder.Add(name, r.text())
			if r.bad {
				return nil, false
			}
		}
		first, count := r.u32(), r.u32()
		s.series[i] = storedSeries{labels: builder.Labels(), first: first, values: r.next(count * 8)}
		if r.bad || first+count > s.steps {
			return nil, false
		}
	}
	return s, true
}

// slice copies the values of the steps [from, to). It omits series without values.
func (s *stored) slice(from, to int) promql.Matrix {
	total := 0
	for i := range s.series {
		c := &s.series[i]
		total += max(0, min(to, c.first+len(c.values)/8)-max(from, c.first))
	}
	points := make([]promql.FPoint, 0, total)
	out := make(promql.Matrix, 0, len(s.series))
	for i := range s.series {
		c := &s.series[i]
		begin := len(points)
		for k := max(from, c.first); k < min(to, c.first+len(c.values)/8); k++ {
			bits := binary.LittleEndian.Uint64(c.values[8*(k-c.first):])
			if bits != value.StaleNaN {
				points = append(points, promql.FPoint{T: s.at(k), F: math.Float64frombits(bits)})
			}
		}
		if len(points) > begin {
			out = append(out, promql.Series{Metric: c.labels, Floats: points[begin:len(points):len(points)]})
		}
	}
	return out
}

// Merged joins matrices of consecutive ranges, each sorted by labels, into one sorted matrix. It copies the points of series
// that are in several matrices.
func Merged(parts []promql.Matrix) promql.Matrix {
	if len(parts) == 1 {
		return parts[0]
	}
	longest := 0
	for _, p := range parts {
		longest = max(longest, len(p))
	}
	out := make(promql.Matrix, 0, longest)
	for {
		least := -1
		for i, p := range parts {
			if len(p) > 0 && (least < 0 || labels.Compare(p[0].Metric, parts[least][0].Metric) < 0) {
				least = i
			}
		}
		if least < 0 {
			return out
		}
		metric := parts[least][0].Metric
		var series promql.Series
		for i := least; i < len(parts); i++ {
			p := parts[i]
			if len(p) == 0 || !labels.Equal(p[0].Metric, metric) {
				continue
			}
			series.Metric = metric
			if series.Floats == nil {
				series.Floats = p[0].Floats[:len(p[0].Floats):len(p[0].Floats)]
			} else {
				series.Floats = append(series.Floats, p[0].Floats...)
			}
			parts[i] = p[1:]
		}
		out = append(out, series)
	}
}

// within returns the points of a matrix from fromMs to toMs, without a copy.
func within(m promql.Matrix, fromMs, toMs int64) promql.Matrix {
	out := make(promql.Matrix, 0, len(m))
	for _, s := range m {
		from, to := 0, len(s.Floats)
		for from < to && s.Floats[from].T < fromMs {
			from++
		}
		for from < to && s.Floats[to-1].T > toMs {
			to--
		}
		if from < to {
			out = append(out, promql.Series{Metric: s.Metric, Floats: s.Floats[from:to:to]})
		}
	}
	return out
}
