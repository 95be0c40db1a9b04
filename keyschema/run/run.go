package run

// Info describes a run.
type Info struct {
	Count           int
	FirstMs, LastMs int64
}

// Encoder packs runs; not concurrent.
type Encoder struct{}

// Decoder unpacks runs; not concurrent.
type Decoder struct{}

// Append packs the samples.
func Append(dst []byte, hourStartMs int64, tsMs []int64, values []float64) ([]byte, error) { panic("declared") }

// Append packs the samples.
func (e *Encoder) Append(dst []byte, hourStartMs int64, tsMs []int64, values []float64) ([]byte, error) {
	panic("declared")
}

// Decode unpacks a run.
func Decode(src []byte, hourStartMs int64, tsMs []int64, values []float64) ([]int64, []float64, error) {
	panic("declared")
}

// Decode unpacks a run.
func (d *Decoder) Decode(src []byte, hourStartMs int64, tsMs []int64, values []float64) ([]int64, []float64, error) {
	panic("declared")
}

// Stat reads the header of a run.
func Stat(src []byte, hourStartMs int64) (Info, error) { panic("declared") }
