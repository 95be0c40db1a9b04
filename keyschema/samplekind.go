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

// SampleWindow selects the unflushed samples of some series with MinMs ≤ time ≤ MaxMs, in milliseconds since 1970.
type SampleWindow struct {
	MinMs, MaxMs int64
	Kind         SampleKind // Floats or StartTimes
	// NewestOnly allows a read to omit all samples of an hour except the newest one.
	NewestOnly bool
	// FromMs is nil, or has a time for each series, which replaces MinMs in the hour of that time. The reader already knows the
	// earlier samples of the hour. The head has returned them since the last write to the hour's rows in the table. Of these
	// samples, only the newest one may have changed since then. If the head cannot tell, it sets the time to −1 and uses MinMs.
	// This happens if the hour has several rows, a late sample, or a row that is about to be flushed.
	FromMs []int64
}
