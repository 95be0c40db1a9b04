package keyschema

import "strings"

// turnable reports whether a value of a reversed-domain tag is stored turned: its host part has a dot and does not
// end in a label that starts with a digit, which no domain does but IPv4 addresses do; their prefix is at the front
// already.
func turnable(value string) bool {
	host, _ := splitHost(value)
	dot := strings.LastIndexByte(host, '.')
	return dot >= 0 && (dot+1 == len(host) || host[dot+1] < '0' || host[dot+1] > '9')
}

// splitHost cuts a value before its first colon, where a port may start.
func splitHost(value string) (host, rest string) {
	if colon := strings.IndexByte(value, ':'); colon >= 0 {
		return value[:colon], value[colon:]
	}
	return value, ""
}

// appendTurned appends the escaped form of value with the labels of its host part in reverse order, so that
// www.example.com:9100 becomes com.example.www:9100. Turning twice gives the value back.
func appendTurned(dst []byte, value string) []byte {
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

// turn returns value with the labels of its host part in reverse order.
func turn(value string) string {
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
