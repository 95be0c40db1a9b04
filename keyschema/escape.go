package keyschema

import "fmt"

// Escaping turns any bytes into printable ASCII without the characters that structure a key. It keeps the order: for all a
// and b, the escaped forms compare like a and b.
//
// Bytes 0x2D..0x7D ('-' to '}') stand for themselves except '<' and '='. Every other byte becomes three characters: a lead
// and two upper-case hexadecimal digits. Each lead sorts like the bytes that it replaces: '!' below every literal, '<' in
// its own place, '~' above every literal.
const (
	leadLow  = '!' // 0x00..0x2C: control bytes, space and !"#$%&'()*+,
	leadMid  = '<' // 0x3C and 0x3D: '<' and '='
	leadHigh = '~' // 0x7E..0xFF: '~', DEL and every byte of a non-ASCII character

	hexUpper = "0123456789ABCDEF"
)

// literal reports whether b is written as itself.
func literal(b byte) bool { return b >= '-' && b < '~' && b|1 != '=' }

// leadOf returns the lead of a byte that is not literal.
func leadOf(b byte) byte {
	switch {
	case b < '-':
		return leadLow
	case b >= '~':
		return leadHigh
	default:
		return leadMid
	}
}

// AppendEscaped appends the escaped form of s. It has at most three bytes for each byte of s.
func AppendEscaped(dst []byte, s string) []byte {
	start := 0
	for i := 0; i < len(s); i++ {
		b := s[i]
		if literal(b) {
			continue
		}
		dst = append(dst, s[start:i]...)
		dst = append(dst, leadOf(b), hexUpper[b>>4], hexUpper[b&15])
		start = i + 1
	}
	return append(dst, s[start:]...)
}

// Unescape is the inverse of [AppendEscaped]. It accepts only results of AppendEscaped, so each string has one
// escaped form. All errors wrap [ErrBadEscape].
func Unescape(src []byte) (string, error) { return unescape(string(src)) }

// unescape returns s itself if s has no escapes.
func unescape(s string) (string, error) {
	for i := range len(s) {
		if !literal(s[i]) {
			return unescapeFrom(s, i)
		}
	}
	return s, nil
}

// unescapeFrom unescapes s. Its first plain bytes are literals.
func unescapeFrom(s string, plain int) (string, error) {
	out := append(make([]byte, 0, len(s)), s[:plain]...)
	for i := plain; i < len(s); {
		if literal(s[i]) {
			out = append(out, s[i])
			i++
			continue
		}
		if i+3 > len(s) {
			return "", fmt.Errorf("%w: byte 0x%02x at index %d is not the start of an escape sequence", ErrBadEscape, s[i], i)
		}
		high, low := unhex(s[i+1]), unhex(s[i+2])
		b := high<<4 | low
		if high > 15 || low > 15 || literal(b) || leadOf(b) != s[i] {
			return "", fmt.Errorf("%w: %q at index %d", ErrBadEscape, s[i:i+3], i)
		}
		out = append(out, b)
		i += 3
	}
	return string(out), nil
}

// unhex returns the value of an upper-case hexadecimal digit, or 255.
func unhex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	default:
		return 255
	}
}
