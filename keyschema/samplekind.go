package keyschema

import "fmt"

// SampleKind is the type of the samples in a row. Every kind has its own column family. The values are stored in flags:
// never change them.
type SampleKind uint8

const (
	Floats     SampleKind = 0
	Histograms SampleKind = 1 // native histograms, of integers or floats, and histograms with custom buckets
	Exemplars  SampleKind = 2
	StartTimes SampleKind = 3 // a float sample for each sample with a start timestamp: the start in unix milliseconds

	// SampleKinds is the number of kinds.
	SampleKinds = 4
)

// String names the kind in the plural.
func (k SampleKind) String() string {
	switch k {
	case Floats:
		return "floats"
	case Histograms:
		return "histograms"
	case Exemplars:
		return "exemplars"
	case StartTimes:
		return "start timestamps"
	default:
		return fmt.Sprintf("SampleKind(%d)", uint8(k))
	}
}
