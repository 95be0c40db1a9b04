package record

// Metadata describes one metric.
type Metadata struct {
	Metric, Type, Help, Unit string
}

// AppendMetadata appends the record of one metric. A KindMetadata payload is any number of them.
func AppendMetadata(dst []byte, m Metadata) []byte {
	dst = appendString(dst, m.Metric)
	dst = appendString(dst, m.Type)
	dst = appendString(dst, m.Help)
	return appendString(dst, m.Unit)
}

// ParseMetadata calls fn for each metric of a KindMetadata payload, in order. It stops at an error and returns it: fn's, or
// ErrMalformed.
func ParseMetadata(payload []byte, fn func(Metadata) error) error {
	r := fieldReader{rest: string(payload)}
	for len(r.rest) > 0 {
		at := len(payload) - len(r.rest)
		m := Metadata{r.field(), r.field(), r.field(), r.field()}
		if r.bad {
			return malformed("metadata", at)
		}
		if err := fn(m); err != nil {
			return err
		}
	}
	return nil
}
