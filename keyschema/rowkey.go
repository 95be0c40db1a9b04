package keyschema

// RowKey is a parsed row key.
type RowKey struct {
	Metric   string
	Salt     int
	Tags     []Tag
	TagsHash string
	Hour     int64
}

// Salt returns the salt of a series.
func (r *Rule) Salt(metric string, tags []Tag) int { panic("declared") }

// AppendPrefix appends "metric#salt#tags#".
func (r *Rule) AppendPrefix(dst []byte, metric string, tags []Tag) []byte { panic("declared") }

// LongTags reports whether the tags do not fit in a key, and the hash that stands for them.
func (r *Rule) LongTags(metric string, tags []Tag) (hash string, long bool) { panic("declared") }

// ParseRowKey parses a row key.
func ParseRowKey(key []byte) (RowKey, error) { panic("declared") }

// SeriesRange returns the range of one series' hours.
func SeriesRange(prefix []byte, fromHour, toHour int64) (start, end []byte) { panic("declared") }

// MetricRange returns the range of a metric's rows in one salt.
func (r *Rule) MetricRange(metric string, salt int) (start, end []byte) { panic("declared") }

// PromotedRange returns the range of the rows with the given values of the first promoted tags.
func (r *Rule) PromotedRange(metric string, values []string) (salt int, start, end []byte, ok bool) {
	panic("declared")
}
