package heat

import "strings"

// Border is what changes at the start of a key range.
type Border uint8

const (
	// BorderNone: the range continues the salt of the range before it.
	BorderNone Border = iota
	// BorderSalt, BorderMetric and BorderTenant: the range begins another salt, metric or tenant.
	BorderSalt
	BorderMetric
	BorderTenant
)

func (b Border) String() string { return [...]string{"", "salt", "metric", "tenant"}[b] }

// BorderOf returns the border between a range that starts at before and the next one, which starts at key.
func BorderOf(before, key string) Border {
	metric, rest := cutField(key)
	otherMetric, otherRest := cutField(before)
	if metric != otherMetric {
		if tenantOf(metric) != tenantOf(otherMetric) {
			return BorderTenant
		}
		return BorderMetric
	}
	salt, _ := cutField(rest)
	if otherSalt, _ := cutField(otherRest); salt != otherSalt {
		return BorderSalt
	}
	return BorderNone
}

// cutField returns the first field of a key and the rest behind its separator.
func cutField(key string) (field, rest string) {
	field, rest, _ = strings.Cut(key, "#")
	return field, rest
}

// tenantOf returns what a metric begins with: "&name&", or "".
func tenantOf(metric string) string {
	if metric == "" || metric[0] != '&' {
		return ""
	}
	if at := strings.IndexByte(metric[1:], '&'); at >= 0 {
		return metric[:at+2]
	}
	return ""
}

// Cut returns a short key above a and not above b, which follows a in order. It ends where a field or a tag of b ends.
func Cut(a, b string) string {
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	if at >= len(b) {
		return b
	}
	if end := strings.IndexAny(b[at:], "#,"); end >= 0 {
		return b[:at+end+1]
	}
	return b
}
