package heat

import "strings"

// Border is the field that changes at the start of a key range.
type Border uint8

const (
	// BorderNone means that the range continues the salt of the previous range.
	BorderNone Border = iota
	// BorderSalt, BorderMetric and BorderTenant mean that the range begins another salt, metric or tenant.
	BorderSalt
	BorderMetric
	BorderTenant
)

func (b Border) String() string { return [...]string{"", "salt", "metric", "tenant"}[b] }

// BorderOf returns the border between a range that starts at before and the next one, which starts at key.
func BorderOf(before, key string) Border {
	metric, rest := firstField(key)
	otherMetric, otherRest := firstField(before)
	if metric != otherMetric {
		if tenantOf(metric) != tenantOf(otherMetric) {
			return BorderTenant
		}
		return BorderMetric
	}
	salt, _ := firstField(rest)
	if otherSalt, _ := firstField(otherRest); salt != otherSalt {
		return BorderSalt
	}
	return BorderNone
}

// firstField returns the first field of a key and the rest after its separator.
func firstField(key string) (field, rest string) {
	field, rest, _ = strings.Cut(key, "#")
	return field, rest
}

// tenantOf returns the tenant prefix of a metric, "&name&" or "".
func tenantOf(metric string) string {
	if metric == "" || metric[0] != '&' {
		return ""
	}
	if at := strings.IndexByte(metric[1:], '&'); at >= 0 {
		return metric[:at+2]
	}
	return ""
}

// Separator returns a short key k with a < k ≤ b. It ends where a field or a tag of b ends.
func Separator(a, b string) string {
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
