package keyschema

import "strings"

// isDomain reports whether the key stores the value of a reversed-domain tag with its labels in reverse order. The host part
// must have a dot, and its last label must not start with a digit. The prefix of an IPv4 address comes first already, so the
// address is not a domain.
func isDomain(value string) bool {
	host, _ := splitHost(value)
	dot := strings.LastIndexByte(host, '.')
	return dot >= 0 && (dot+1 == len(host) || host[dot+1] < '0' || host[dot+1] > '9')
}

// splitHost splits a value before its first colon, where a port may start.
func splitHost(value string) (host, rest string) {
	if colon := strings.IndexByte(value, ':'); colon >= 0 {
		return value[:colon], value[colon:]
	}
	return value, ""
}

// appendReversedDomain appends the escaped form of value with the labels of its host part in reverse order:
// www.example.com:9100 becomes com.example.www:9100. Reversing twice restores the value.
func appendReversedDomain(dst []byte, value string) []byte {
	host, rest := splitHost(value)
	for {
		dot := strings.LastIndexByte(host, '.')
		dst = AppendEscaped(dst, host[dot+1:])
		if dot < 0 {
			return AppendEscaped(dst, rest)
		}
		dst = append(dst, '.')
		host = host[:dot]
	}
}

// reverseDomain returns value with the labels of its host part in reverse order.
func reverseDomain(value string) string {
	host, rest := splitHost(value)
	out := make([]byte, 0, len(value))
	for {
		dot := strings.LastIndexByte(host, '.')
		out = append(out, host[dot+1:]...)
		if dot < 0 {
			return string(append(out, rest...))
		}
		out = append(out, '.')
		host = host[:dot]
	}
}
