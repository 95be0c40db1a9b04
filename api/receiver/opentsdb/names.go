package opentsdb

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/common/model"

	"halite/ingest/remotewrite"
)

// Names are the rules of metrics and tags. Metrics, tag keys and tag values may have letters, digits, "-", "_", ".", "/", and
// the characters that NewNames adds. It is safe for concurrent use.
type Names struct {
	legal [utf8.RuneSelf]bool
	more  []rune
	// tagsMax bounds the tags of a data point.
	tagsMax int
}

// TagsMaxDefault is the default bound of the tags of a data point.
const TagsMaxDefault = 512

// DefaultNames returns OpenTSDB's rules, with TagsMaxDefault tags.
func DefaultNames() *Names {
	names, _ := NewNames("", TagsMaxDefault) // only special characters can cause an error
	return names
}

// reservedChars separate tags in a line and in keys.
const reservedChars = " =\n\r\x00"

// NewNames returns the rules of OpenTSDB, and also allows the characters in special. tagsMax bounds the tags of a data point.
func NewNames(special string, tagsMax int) (*Names, error) {
	n := &Names{tagsMax: tagsMax}
	for c := range n.legal {
		n.legal[c] = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			c == '-' || c == '_' || c == '.' || c == '/'
	}
	for _, c := range special {
		switch {
		case c == utf8.RuneError || strings.ContainsRune(reservedChars, c):
			return nil, fmt.Errorf("character %q separates tags, so names cannot have it", c)
		case c < utf8.RuneSelf:
			n.legal[c] = true
		default:
			n.more = append(n.more, c)
		}
	}
	return n, nil
}

// illegal returns the first character that a name may not have.
func (n *Names) illegal(name []byte) (c rune, found bool) {
	for at := 0; at < len(name); {
		if b := name[at]; b < utf8.RuneSelf {
			if !n.legal[b] {
				return rune(b), true
			}
			at++
			continue
		}
		c, size := utf8.DecodeRune(name[at:])
		if c == utf8.RuneError && size == 1 || !unicode.IsLetter(c) && !slices.Contains(n.more, c) {
			return c, true
		}
		at += size
	}
	return 0, false
}

// tag is a tag of a data point. Its slices are parts of the request, or copies without escapes.
type tag struct{ key, value []byte }

// check returns the fault of the names of a data point.
func (n *Names) check(metric []byte, tags []tag) error {
	if c, bad := n.illegal(metric); bad {
		return illegalError("metric name", metric, c)
	}
	for i := range tags {
		if c, bad := n.illegal(tags[i].key); bad {
			return illegalError("tag name with value ["+clip(tags[i].value)+"]", tags[i].key, c)
		}
		if c, bad := n.illegal(tags[i].value); bad {
			return illegalError("tag value with key ["+clip(tags[i].key)+"]", tags[i].value, c)
		}
	}
	return nil
}

// Check returns the fault of a name. what is the kind of the name.
func (n *Names) Check(what, name string) error {
	if name == "" {
		return argument("Invalid %s: empty string", what)
	}
	if c, bad := n.illegal([]byte(name)); bad {
		return illegalError(what, []byte(name), c)
	}
	return nil
}

// checkFilled is check for data points with possibly empty names. A nil value is the null of JSON.
func (n *Names) checkFilled(metric []byte, tags []tag) error {
	for i := range tags {
		if len(tags[i].key) == 0 {
			return argument("Invalid tag name with value [%s]: empty string", clip(tags[i].value))
		}
		if tags[i].value == nil {
			return argument("Invalid tag value with key [%s]: null", clip(tags[i].key))
		}
		if len(tags[i].value) == 0 {
			return argument("Invalid tag value with key [%s]: empty string", clip(tags[i].key))
		}
	}
	return n.check(metric, tags)
}

func illegalError(what string, name []byte, c rune) error {
	return argument("Invalid %s (\"%s\"): illegal character: %c", what, clip(name), c)
}

// textShown bounds the part of a bad line that an error repeats.
const textShown = 200

// clip shortens a text for an error. The result is valid UTF-8.
func clip(text []byte) string {
	if len(text) > textShown {
		return string(bytes.ToValidUTF8(text[:textShown], []byte("?"))) + "…"
	}
	return string(bytes.ToValidUTF8(text, []byte("?")))
}

// Shown shortens a text of a client for a response.
func Shown(text string) string { return clip([]byte(text)) }

// add adds a tag to the others. A tag with a known key must have the known value.
func (n *Names) add(tags []tag, key, value []byte) ([]tag, error) {
	for i := range tags {
		if !bytes.Equal(tags[i].key, key) {
			continue
		}
		if !bytes.Equal(tags[i].value, value) {
			return tags, argument("duplicate tag: %s=%s, tags={%s=%s}", clip(key), clip(value), clip(key), clip(tags[i].value))
		}
		return tags, nil
	}
	if len(tags) == n.tagsMax {
		return tags, argument("Too many tags: more than %d", n.tagsMax)
	}
	return append(tags, tag{key, value}), nil
}

// keyMark begins the keys. No label field and no key of another protocol begins so.
const keyMark = 3

// appendKey appends the key of a series to dst.
func appendKey(dst, metric []byte, tags []tag) []byte {
	dst = append(append(dst, keyMark), metric...)
	for n := range tags {
		dst = append(append(dst, ' '), tags[n].key...)
		dst = append(append(dst, '='), tags[n].value...)
	}
	return dst
}

// appendFields appends the label fields of the series with a key. It ignores spaces at the end of the key, and repeated spaces.
func appendFields(dst, key []byte) ([]byte, error) {
	metric, rest, _ := bytes.Cut(key[1:], []byte{' '})
	dst = remotewrite.AppendField(dst, []byte(model.MetricNameLabel), metric)
	for len(rest) > 0 {
		var word []byte
		if word, rest, _ = bytes.Cut(rest, []byte{' '}); len(word) > 0 {
			k, v, _ := bytes.Cut(word, []byte{'='})
			dst = remotewrite.AppendField(dst, k, v)
		}
	}
	return dst, nil
}
