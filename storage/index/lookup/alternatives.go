package lookup

import "strings"

// alternatives returns the values of a regular expression such as `a|b\.c` or `(a|b\.c)`, if it matches no others. Grafana writes
// the second form for a variable with several values. Prometheus lists at most 256 values of these forms; above, it compares each
// value of the label with a tree of prefixes.
func alternatives(pattern string) (values []string, ok bool) {
	if strings.HasPrefix(pattern, "(") && strings.HasSuffix(pattern, ")") {
		pattern = pattern[1 : len(pattern)-1]
	}
	var value []byte
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '|':
			values, value = append(values, string(value)), value[:0]
		case c == '\\' && i+1 < len(pattern) && isPunctuation(pattern[i+1]):
			i++
			value = append(value, pattern[i])
		case strings.IndexByte(`\.+*?()[]{}^$`, c) >= 0:
			return nil, false
		default:
			value = append(value, c)
		}
	}
	return append(values, string(value)), true
}

// isPunctuation reports whether a character stands for itself after a backslash.
func isPunctuation(c byte) bool { return c >= '!' && c <= '~' && !isAlphanumeric(c) }

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}
