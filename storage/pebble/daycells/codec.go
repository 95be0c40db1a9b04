package daycells

// Codec packs the values of one series and day, which the engine does not interpret. Its functions are safe for concurrent
// use.
type Codec struct {
	// Name is stored with each table and must change whenever the bytes change.
	Name string
	// Append appends one blob with all values. The values may be any bytes. Usually they belong to consecutive hours, newest
	// first.
	Append func(dst []byte, values [][]byte) []byte
	// NewDecoder returns a decoder for one goroutine.
	NewDecoder func() Decoder
}

// Decoder unpacks blobs of a Codec, one at a time. It belongs to one goroutine.
type Decoder interface {
	// Open takes a blob of count values and keeps it until the next call. For bytes that Append did not make, it fails or
	// returns some values.
	Open(blob []byte, count int) error
	// Append appends value i of the open blob, identical to the packed value.
	Append(dst []byte, i int) []byte
}
