package remotewrite

import (
	"fmt"
	"math"
)

// Field numbers of the messages of remote write 2.0. Sample and Histogram are as in 1.0, with a start timestamp.
const (
	requestSymbolV2 = 4
	requestSeriesV2 = 5

	seriesRefsV2      = 1
	seriesSampleV2    = 2
	seriesHistogramV2 = 3
	seriesExemplarV2  = 4
	seriesMetadataV2  = 5
)

// ReferenceError reports a reference that makes a series invalid.
type ReferenceError struct {
	Reason string
}

func (e *ReferenceError) Error() string { return e.Reason }

// BoundsV2 bounds the memory that a request needs besides its body.
type BoundsV2 struct {
	SymbolsMax, SeriesMax int
}

// span is a part of a body that is smaller than 4 GiB.
type span struct{ from, to uint32 }

// WalkerV2 iterates over the series of an io.prometheus.write.v2.Request. Symbols may come before, between or after the series.
type WalkerV2 struct {
	b       []byte
	symbols []span
	hashes  []Key // of the symbols
	series  []span
	next    int
	values  values
	refs    []uint32
}

// Reset begins a walk over a decoded body. It finds all symbols and series and checks the form of the request outside the
// series. The error is a *FormatError or wraps ErrTooLarge.
func (w *WalkerV2) Reset(body []byte, bounds BoundsV2) error {
	w.b, w.next = body, 0
	w.symbols, w.hashes, w.series, w.refs = reuse(w.symbols), reuse(w.hashes), reuse(w.series), reuse(w.refs)
	w.values.reset()
	w.values.starts = true
	if len(body) > math.MaxUint32 {
		return fmt.Errorf("%w: %d bytes", ErrTooLarge, len(body))
	}
	for pos := 0; pos < len(body); {
		// Most series are shorter than 16 KiB.
		if rest := body[pos:]; len(rest) > 2 && rest[0] == requestSeriesV2<<3|wireBytes && rest[2] < 0x80 &&
			len(w.series) < bounds.SeriesMax {
			from, size := pos+2, int(rest[1])
			if size >= 0x80 {
				from, size = pos+3, size&0x7f|int(rest[2])<<7
			}
			if size <= len(body)-from {
				pos = from + size
				w.series = append(w.series, span{uint32(from), uint32(pos)})
				continue
			}
		}
		at := pos
		field, wire, next, err := tag(body, at, len(body))
		if err != nil {
			return err
		}
		if field != requestSymbolV2 && field != requestSeriesV2 {
			if pos, err = skip(body, wire, next, len(body)); err != nil {
				return err
			}
			continue
		}
		if err := expectType("a field of Request", wire, wireBytes, at); err != nil {
			return err
		}
		from, to, err := lengthDelimited(body, next, len(body))
		if err != nil {
			return err
		}
		pos = to
		found := span{uint32(from), uint32(to)}
		if field == requestSeriesV2 {
			if len(w.series) == bounds.SeriesMax {
				return fmt.Errorf("%w: more than %d series", ErrTooLarge, bounds.SeriesMax)
			}
			w.series = append(w.series, found)
			continue
		}
		if len(w.symbols) == bounds.SymbolsMax {
			return fmt.Errorf("%w: more than %d symbols (--ingest.max-symbols)", ErrTooLarge, bounds.SymbolsMax)
		}
		if len(w.symbols) == 0 && from != to {
			return formatError(from, "the first symbol is not empty")
		}
		w.symbols = append(w.symbols, found)
	}
	return nil
}

// reuse empties a list. It drops the memory of a very large one.
func reuse[T any](list []T) []T {
	if cap(list) > valuesKeepMax {
		return nil
	}
	return list[:0]
}

// Reserve sets a function that is called with the memory of each histogram before it is decoded. Its error ends Series.
func (w *WalkerV2) Reserve(reserve func(sizeBytes int) error) { w.values.reserve = reserve }

// Symbols is the number of symbols.
func (w *WalkerV2) Symbols() int { return len(w.symbols) }

// Symbol returns a symbol, valid as long as the body.
func (w *WalkerV2) Symbol(ref uint32) []byte {
	s := w.symbols[ref]
	return w.b[s.from:s.to:s.to]
}

// Next goes to the next series. It does not check the inside of the series; Series does.
func (w *WalkerV2) Next() bool {
	if w.next == len(w.series) {
		return false
	}
	w.next++
	return true
}

// Mark returns the position of the current series for Rewind.
func (w *WalkerV2) Mark() int { return w.next - 1 }

// Rewind makes Next return the series that was current when Mark returned mark.
func (w *WalkerV2) Rewind(mark int) { w.next = mark }

// Series reads the current series. The error is a *FormatError or comes from Reserve.
func (w *WalkerV2) Series() (Series, error) {
	at := w.series[w.next-1]
	s := Series{Offset: int(at.from)}
	w.values.next()
	w.refs = w.refs[:0]
	b := w.b[:at.to:at.to]
	for pos := int(at.from); pos < len(b); {
		at := pos
		field, wire, next, err := tag(b, pos, len(b))
		if err != nil {
			return s, err
		}
		if field == seriesRefsV2 {
			if w.refs, pos, err = appendRefs(w.refs, b, wire, at, next, len(b)); err != nil {
				return s, err
			}
			continue
		}
		if field > seriesMetadataV2 {
			if pos, err = skip(b, wire, next, len(b)); err != nil {
				return s, err
			}
			continue
		}
		if err := expectType("a field of TimeSeries", wire, wireBytes, at); err != nil {
			return s, err
		}
		from, to, err := lengthDelimited(b, next, len(b))
		if err != nil {
			return s, err
		}
		pos = to
		switch field {
		case seriesSampleV2:
			err = w.values.sample(b, from, to)
		case seriesHistogramV2:
			err = w.values.histogram(b, from, to)
		case seriesExemplarV2:
			err = w.exemplar(&s, from, to)
		case seriesMetadataV2:
			err = s.Metadata.read(b, from, to)
		}
		if err != nil {
			return s, err
		}
	}
	s.Refs = w.refs
	w.values.into(&s)
	w.checkRefs(&s)
	return s, nil
}

// checkRefs sets the fault of a series if a reference of its labels or metadata is wrong.
func (w *WalkerV2) checkRefs(s *Series) {
	most := uint32(0)
	for _, ref := range s.Refs {
		most = max(most, ref)
	}
	m := &s.Metadata
	if len(s.Refs)%2 == 0 && max(most, m.HelpRef, m.UnitRef) < uint32(len(w.symbols)) {
		return
	}
	switch {
	case len(s.Refs)%2 != 0:
		s.Fault = &ReferenceError{fmt.Sprintf("%d references to labels, which is not an even number", len(s.Refs))}
	case len(s.Refs) > 0 && int(most) >= len(w.symbols):
		s.Fault = w.outside("a label", most)
	case m.HelpRef != 0 || m.UnitRef != 0:
		s.Fault = w.outside("metadata", max(m.HelpRef, m.UnitRef))
	}
}

func (w *WalkerV2) outside(what string, ref uint32) error {
	return &ReferenceError{fmt.Sprintf("reference %d of %s is outside the table of %d symbols", ref, what, len(w.symbols))}
}

// exemplar reads an exemplar. One with a wrong reference only counts.
func (w *WalkerV2) exemplar(s *Series, pos, end int) error {
	v := &w.values
	mark := len(w.refs) // the references of the exemplar follow the references of the series until they are checked
	defer func() { w.refs = w.refs[:mark] }()
	e, err := readExemplar(w.b, pos, end, func(wire, at, pos int) (next int, err error) {
		w.refs, next, err = appendRefs(w.refs, w.b, wire, at, pos, end)
		return next, err
	})
	if err != nil {
		return err
	}
	refs := w.refs[mark:]
	if len(refs)%2 != 0 {
		s.ExemplarFaults++
		s.ExemplarFault = &ReferenceError{
			fmt.Sprintf("%d references to labels of an exemplar, which is not an even number", len(refs)),
		}
		return nil
	}
	for _, ref := range refs {
		if int(ref) >= len(w.symbols) {
			s.ExemplarFaults++
			s.ExemplarFault = w.outside("an exemplar's label", ref)
			return nil
		}
	}
	v.beginExemplar()
	for i := 0; i < len(refs); i += 2 {
		v.exemplarLabel(w.Symbol(refs[i]), w.Symbol(refs[i+1]))
	}
	v.addExemplar(e)
	return nil
}

// AppendFields writes the labels of a series without faults as the label fields of 1.0.
func (w *WalkerV2) AppendFields(dst []byte, refs []uint32) []byte {
	for i := 0; i+1 < len(refs); i += 2 {
		dst = AppendField(dst, w.Symbol(refs[i]), w.Symbol(refs[i+1]))
	}
	return dst
}

// appendRefs reads one or, packed, many references, like appendDeltas.
func appendRefs(dst []uint32, b []byte, wire, at, pos, end int) ([]uint32, int, error) {
	pos, to, err := elements(b, "a list of references", wireVarint, wire, at, pos, end)
	if err != nil {
		return dst, 0, err
	}
	for pos < to {
		// Most symbol tables need one or two bytes for a reference.
		if c := b[pos]; c < 0x80 {
			dst, pos = append(dst, uint32(c)), pos+1
			continue
		} else if pos+1 < end && b[pos+1] < 0x80 {
			dst, pos = append(dst, uint32(c&0x7f)|uint32(b[pos+1])<<7), pos+2
			continue
		}
		v, next, err := uvarint(b, pos, end)
		if err != nil {
			return dst, 0, err
		}
		dst, pos = append(dst, uint32(v)), next
	}
	return dst, pos, nil
}
