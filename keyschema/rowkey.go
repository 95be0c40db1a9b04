package keyschema

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The characters that structure a key. No escaped text contains them.
const (
	fieldSep     = '#' // between metric, salt, tags and hour
	tagSep       = ',' // between tags
	valueSep     = '=' // between a tag's name and value
	markReversed = '+' // first byte of a value with reversed domain labels
	markHash     = '$' // first byte of the content hash that replaces the tags
	pastField    = '$' // fieldSep + 1: exclusive end of all keys that continue a field with fieldSep
	// pastTag is the exclusive end of all keys that continue a tag with fieldSep or tagSep. No escaped text starts
	// between the two.
	pastTag = tagSep + 1
	// prefixBytesMax leaves room for the digits of the hour.
	prefixBytesMax = KeyBytesMax - HourDigits
	// clearBytesMax leaves room for ",$hash#" and the digits of the hour.
	clearBytesMax = prefixBytesMax - tagsHashDigits - 3
)

// RowKey is a parsed row key.
type RowKey struct {
	Metric string
	Salt   int
	// Tags are sorted by name. If TagsHash is set, they are only the promoted tags in the key.
	Tags []Tag
	// TagsHash is set if the tags are too long for a key. The full list is stored under this hash (see [Rule.LongTags]).
	TagsHash string
	Hour     int64
}

// Salt returns the salt of a series in 0..Salts−1. It never changes for a given rule.
func (r *Rule) Salt(metric string, tags []Tag) int {
	if r.Salts == 1 {
		return 0
	}
	h := saltHash(saltSeed).field(metric)
	if r.Basis == BasisPromoted {
		for _, name := range r.salted() {
			value, _ := tagValue(tags, name)
			h = h.field(name).field(value)
		}
		return h.modulo(r.Salts)
	}
	for i := range tags {
		h = h.field(tags[i].Name).field(tags[i].Value)
	}
	return h.modulo(r.Salts)
}

// AppendPrefix appends "metric#salt#tags#": the row keys of a series under this rule without their hour. No prefix of
// one rule is a prefix of another series' prefix. If a key would exceed KeyBytesMax, it holds
// the leading promoted tags that fit, then "$" and the content hash of all tags (see [Rule.LongTags]). Metric has 1 to
// MetricBytesMax bytes.
func (r *Rule) AppendPrefix(dst []byte, metric string, tags []Tag) []byte {
	start := len(dst)
	salt := r.Salt(metric, tags)
	dst = r.appendSalted(dst, metric, salt)
	body := len(dst)
	dst = append(r.appendTags(dst, tags), fieldSep)
	if len(dst)-start > prefixBytesMax {
		dst = r.appendHashed(dst[:body], start, tags)
	}
	return dst
}

// LongTags reports whether the tags are too long for keys of the metric under this rule. If so, it returns the hash
// that replaces them. The caller must store the tags under the hash before it writes rows.
func (r *Rule) LongTags(metric string, tags []Tag) (hash string, long bool) {
	size := metricLen(metric) + r.saltDigits() + len("###")
	for i := range tags {
		size += escapedLen(tags[i].Name) + escapedLen(tags[i].Value) + len("=,")
		if r.reverses(&tags[i]) {
			size++
		}
	}
	if len(tags) > 0 {
		size-- // one comma fewer than tags
	}
	if size <= prefixBytesMax {
		return "", false
	}
	return string(appendTagsHash(nil, tags)), true
}

// MayBeLong reports whether the tags are too long for the metric's keys under any rule. If so, it returns the hash that
// replaces them. A later rule may hash tags that current keys spell out.
func MayBeLong(metric string, tags []Tag) (hash string, long bool) {
	widest := Rule{Salts: SaltsMax, ReversedDomains: make([]string, len(tags))}
	for i := range tags {
		widest.ReversedDomains[i] = tags[i].Name
	}
	return widest.LongTags(metric, tags)
}

func escapedLen(s string) int {
	n := len(s)
	for i := range len(s) {
		if !literal(s[i]) {
			n += 2
		}
	}
	return n
}

// appendSalted appends "metric#salt#".
func (r *Rule) appendSalted(dst []byte, metric string, salt int) []byte {
	dst = append(appendMetric(dst, metric), fieldSep)
	return append(appendDigits(dst, salt, r.saltDigits()), fieldSep)
}

// appendTags appends the promoted tags, then the others, separated by commas.
func (r *Rule) appendTags(dst []byte, tags []Tag) []byte {
	first := true
	add := func(dst []byte, t *Tag) []byte {
		if !first {
			dst = append(dst, tagSep)
		}
		first = false
		return r.AppendTag(dst, t)
	}
	for _, name := range r.Promoted {
		for i := range tags {
			if tags[i].Name == name {
				dst = add(dst, &tags[i])
			}
		}
	}
	for i := range tags {
		if len(r.Promoted) == 0 || !slices.Contains(r.Promoted, tags[i].Name) {
			dst = add(dst, &tags[i])
		}
	}
	return dst
}

// AppendTag appends "name=value" with escaped characters. It reverses and marks a domain if the rule says so.
func (r *Rule) AppendTag(dst []byte, t *Tag) []byte {
	dst = append(AppendEscaped(dst, t.Name), valueSep)
	if r.reverses(t) {
		return appendReversedDomain(append(dst, markReversed), t.Value)
	}
	return AppendEscaped(dst, t.Value)
}

func (r *Rule) reverses(t *Tag) bool {
	return len(r.ReversedDomains) > 0 && slices.Contains(r.ReversedDomains, t.Name) && isDomain(t.Value)
}

// appendHashed appends the leading promoted tags that fit, then the hash that replaces all tags. The key starts at
// dst[start].
func (r *Rule) appendHashed(dst []byte, start int, tags []Tag) []byte {
	body := len(dst)
	for _, name := range r.Promoted {
		value, ok := tagValue(tags, name)
		if !ok {
			continue
		}
		before := len(dst)
		if before > body {
			dst = append(dst, tagSep)
		}
		if dst = r.AppendTag(dst, &Tag{name, value}); len(dst)-start > clearBytesMax {
			dst = dst[:before]
			break
		}
	}
	if len(dst) > body {
		dst = append(dst, tagSep)
	}
	return append(appendTagsHash(append(dst, markHash), tags), fieldSep)
}

// CutFields returns the first n fields of a row key, each with its separator. If the key has fewer separators, ok is false and
// fields is the whole key.
func CutFields(key []byte, n int) (fields []byte, ok bool) {
	at := 0
	for range n {
		i := bytes.IndexByte(key[at:], fieldSep)
		if i < 0 {
			return key, false
		}
		at += i + 1
	}
	return key[:at], true
}

// ParseRowKey parses a row key of any rule. The key itself shows the width of the salt and which domains are reversed.
// All errors wrap [ErrBadKey]. The result does not refer to key.
func ParseRowKey(key []byte) (RowKey, error) {
	k, err := parseRowKey(key)
	if err != nil {
		return RowKey{}, fmt.Errorf("%w %.200q: %w", ErrBadKey, key, err)
	}
	return k, nil
}

func parseRowKey(key []byte) (RowKey, error) {
	if len(key) > KeyBytesMax {
		return RowKey{}, fmt.Errorf("%d bytes exceed %d", len(key), KeyBytesMax)
	}
	metric, rest, found1 := strings.Cut(string(key), "#")
	salt, rest, found2 := strings.Cut(rest, "#")
	tags, hour, found3 := strings.Cut(rest, "#")
	if !found1 || !found2 || !found3 {
		return RowKey{}, errors.New("fewer than four fields")
	}
	var k RowKey
	var err error
	if k.Metric, err = unescapeMetric(metric); err != nil {
		return RowKey{}, fmt.Errorf("metric: %w", err)
	}
	if k.Metric == "" || len(k.Metric) > MetricBytesMax {
		return RowKey{}, fmt.Errorf("metric of %d bytes", len(k.Metric))
	}
	saltNumber, ok := parseDigits([]byte(salt))
	if !ok || len(salt) < 2 || len(salt) > 3 {
		return RowKey{}, fmt.Errorf("salt %q is not two or three digits", salt)
	}
	k.Salt = int(saltNumber)
	if k.Hour, ok = ParseHour([]byte(hour)); !ok {
		return RowKey{}, fmt.Errorf("hour %q is not seven digits", hour)
	}
	return k, k.parseTags(tags)
}

func (k *RowKey) parseTags(text string) error {
	if text == "" {
		return nil
	}
	tags := make([]Tag, 0, 1+strings.Count(text, ","))
	for more := true; more; {
		var field string
		field, text, more = strings.Cut(text, ",")
		if !more && field != "" && field[0] == markHash {
			if k.TagsHash = field[1:]; !isTagsHash(k.TagsHash) {
				return fmt.Errorf("tags hash %q is not %d hexadecimal digits", k.TagsHash, tagsHashDigits)
			}
			break
		}
		tag, err := parseTag(field)
		if err != nil {
			return err
		}
		tags = append(tags, tag)
	}
	slices.SortFunc(tags, func(a, b Tag) int { return cmp.Compare(a.Name, b.Name) })
	for i := 1; i < len(tags); i++ {
		if tags[i].Name == tags[i-1].Name {
			return fmt.Errorf("tag %q occurs twice", tags[i].Name)
		}
	}
	if len(tags) > 0 {
		k.Tags = tags
	}
	return nil
}

func isTagsHash(s string) bool {
	for i := range len(s) {
		if (s[i] < '0' || s[i] > '9') && (s[i] < 'a' || s[i] > 'f') {
			return false
		}
	}
	return len(s) == tagsHashDigits
}

func parseTag(field string) (Tag, error) {
	nameText, valueText, found := strings.Cut(field, "=")
	if !found {
		return Tag{}, fmt.Errorf("tag %q has no '='", field)
	}
	name, err := unescape(nameText)
	if err != nil {
		return Tag{}, fmt.Errorf("tag name: %w", err)
	}
	reversed := valueText != "" && valueText[0] == markReversed
	if reversed {
		valueText = valueText[1:]
	}
	value, err := unescape(valueText)
	if err != nil {
		return Tag{}, fmt.Errorf("value of tag %q: %w", name, err)
	}
	if reversed {
		if value = reverseDomain(value); !isDomain(value) {
			return Tag{}, fmt.Errorf("value %q of tag %q is never reversed", value, name)
		}
	}
	return Tag{name, value}, nil
}
