package rollup

// Fields is a set of fields of a [State]. The bits are stored: never change them.
type Fields uint16

// The groups of fields. Count, FirstMs and LastMs belong to every state.
const (
	// FieldEdges are First and Last.
	FieldEdges Fields = 1 << iota
	// FieldNaNs is NaNs.
	FieldNaNs
	// FieldMin and FieldMax are Min and Max.
	FieldMin
	FieldMax
	// FieldSum is Sum and SumLow.
	FieldSum
	// FieldCounter is Correction and Resets; joining them needs FieldEdges too.
	FieldCounter
	// FieldChanges is Changes; joining it needs FieldEdges too.
	FieldChanges
	// FieldMoments is Mean and M2.
	FieldMoments
	// FieldStale is Stale.
	FieldStale

	// FieldsAll are the fields of a state that is computed from samples.
	FieldsAll = FieldEdges | FieldNaNs | FieldMin | FieldMax | FieldSum | FieldCounter | FieldChanges | FieldMoments |
		FieldStale
)

// Has reports whether the set has all fields of want.
func (f Fields) Has(want Fields) bool { return f&want == want }
