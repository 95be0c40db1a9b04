package keyschema

// Limits of a row key.
const (
	// KeyBytesMax is the longest row key; Bigtable allows 4 KiB.
	KeyBytesMax = 4096
	// MetricBytesMax is the longest metric name. Escaping may triple its length, and a key with a hash in place of tags
	// still fits. Callers refuse longer names.
	MetricBytesMax = 1024
)

// Tag is one label other than the metric name. Slices of Tag are sorted by Name, and names are unique. No value is
// empty, because an empty value means an absent tag.
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
