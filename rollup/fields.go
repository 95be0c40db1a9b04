package rollup

// Fields says which fields of a [State] are known or wanted. The bits are stored: never change them.
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

	// FieldsAll is what samples give.
	FieldsAll = FieldEdges | FieldNaNs | FieldMin | FieldMax | FieldSum | FieldCounter | FieldChanges | FieldMoments |
		FieldStale
)

// Has tells whether all of want are there.
func (f Fields) Has(want Fields) bool { return f&want == want }
