package daychunk

// Codec packs the values of a series' cells of one day, of which the engine knows nothing. Its functions are safe
// for concurrent use.
type Codec struct {
	// Name is stored with each table and must change whenever the bytes change.
	Name string
	// Append appends one blob with all values; they may be anything, but are likely of consecutive hours, newest first.
	Append func(dst []byte, values [][]byte) []byte
	// NewDecoder returns what makes the values again.
	NewDecoder func() Decoder
}

// Decoder takes blobs of a DayChunkCodec apart, one after the other. It belongs to one goroutine.
type Decoder interface {
	// Open takes a blob of so many values, and keeps it until the next call. It fails for bytes that Append did not make,
	// or gives values that it might have been given.
	Open(blob []byte, count int) error
	// Append appends value i of the open blob, identical to what was packed.
	Append(dst []byte, i int) []byte
}
