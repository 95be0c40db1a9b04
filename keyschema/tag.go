package keyschema

// Limits of a row key.
const (
	// KeyBytesMax is the longest row key; Bigtable allows 4 KiB.
	KeyBytesMax = 4096
	// MetricBytesMax is the longest metric name. Escaped it may grow threefold, which still leaves room for the rest
	// of a key whose tags became a hash; callers refuse longer names.
	MetricBytesMax = 1024
)

// Tag is one label other than the metric name. Slices of Tag are sorted by Name, names are unique, and no value is
// empty: an empty value and an absent tag are the same thing.
type Tag struct {
	Name, Value string
}

// tagValue returns the value of the named tag; tags are sorted by name.
func tagValue(tags []Tag, name string) (string, bool) {
	for i := range tags {
		if tags[i].Name == name {
			return tags[i].Value, true
		}
	}
	return "", false
}
