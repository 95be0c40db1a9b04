package shortcut

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
)

// parse returns the request that b is, or nil if it is to be handed over.
func (c *conn) parse(b []byte) *http.Request {
	bodyBytes, ok := plain(b, c.server.opts.Paths)
	if !ok {
		return nil
	}
	c.bytes.Reset(b)
	c.reader.Reset(&c.bytes)
	r, err := http.ReadRequest(c.reader)
	if err != nil || r.ContentLength != int64(bodyBytes) {
		return nil
	}
	r.RemoteAddr = c.remote
	return r
}

const proto = " HTTP/1.1"

// plain reports whether b is a whole request of the kind that is taken, and how long its body is. It is stricter than
// HTTP: whatever is unusual, or could be understood in two ways, is not taken.
func plain(b []byte, paths []string) (bodyBytes int, ok bool) {
	head, body, ok := bytes.Cut(b, []byte("\r\n\r\n"))
	if !ok {
		return 0, false
	}
	line, fields, ok := bytes.Cut(head, []byte("\r\n"))
	if !ok || !printable(line) || !bytes.HasSuffix(line, []byte(proto)) {
		return 0, false
	}
	method, target, ok := bytes.Cut(line[:len(line)-len(proto)], []byte(" "))
	get := string(method) == http.MethodGet
	if !ok || !get && string(method) != http.MethodPost || bytes.IndexByte(target, ' ') >= 0 {
		return 0, false
	}
	if !slices.ContainsFunc(paths, func(p string) bool { return bytes.HasPrefix(target, []byte(p)) }) {
		return 0, false
	}
	var hosts, lengths int
	for more := true; more; {
		line, fields, more = bytes.Cut(fields, []byte("\r\n"))
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || len(name) == 0 || !printable(line) || bytes.IndexByte(name, ' ') >= 0 {
			return 0, false
		}
		switch kindOf(name) {
		case fieldHost:
			hosts++
			ok = plainHost(bytes.TrimSpace(value))
		case fieldLength:
			lengths++
		case fieldConnection:
			ok = bytes.EqualFold(bytes.TrimSpace(value), []byte("keep-alive"))
		case fieldUnusual:
			ok = false
		}
		if !ok {
			return 0, false
		}
	}
	// Without a length there is no body, and a GET has none.
	if hosts != 1 || lengths > 1 || lengths == 0 && len(body) > 0 || get && lengths > 0 {
		return 0, false
	}
	return len(body), true
}

// Header fields that matter here.
const (
	fieldOther = iota
	fieldHost
	fieldLength
	fieldConnection
	fieldUnusual
)

// kindOf sorts header fields; its comparisons are ordered so that most fields take none.
func kindOf(name []byte) int {
	switch len(name) {
	case len("Host"):
		if bytes.EqualFold(name, []byte("Host")) {
			return fieldHost
		}
	case len("Connection"):
		if bytes.EqualFold(name, []byte("Connection")) {
			return fieldConnection
		}
	case len("Content-Length"):
		if bytes.EqualFold(name, []byte("Content-Length")) {
			return fieldLength
		}
	}
	for _, unusual := range [...]string{
		"Expect", "HTTP2-Settings", "Keep-Alive", "Proxy-Connection", "TE", "Trailer", "Transfer-Encoding", "Upgrade",
	} {
		if len(name) == len(unusual) && strings.EqualFold(string(name), unusual) {
			return fieldUnusual
		}
	}
	return fieldOther
}

// printable reports whether b is printable ASCII and spaces.
func printable(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// plainHost reports whether b is a name or an address, with or without a port.
func plainHost(b []byte) bool {
	for _, c := range b {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '-', c == ':', c == '_', c == '[', c == ']':
		default:
			return false
		}
	}
	return len(b) > 0
}
