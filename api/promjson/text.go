package promjson

import (
	"strconv"
	"unicode/utf8"

	"github.com/prometheus/prometheus/model/labels"
)

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD, so that the response stays JSON. It
// also escapes the characters < > & and U+2028, U+2029, as Prometheus does everywhere except in labels.
func AppendString(dst []byte, s string) []byte { return appendText(dst, s, true) }

// appendText is AppendString if html is true. Otherwise it escapes only what JSON requires, as Prometheus does in
// labels.
func appendText(dst []byte, s string, html bool) []byte {
	dst = append(dst, '"')
	if plainWords(s, html) {
		return append(append(dst, s...), '"')
	}
	kind := plainLabel
	if html {
		kind = plainHTML
	}
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if asPlain[c]&kind != 0 {
				i++
				continue
			}
			dst = append(dst, s[from:i]...)
			dst = appendEscape(dst, c)
			i++
			from = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(dst, s[from:i]...)
			dst = append(dst, `\ufffd`...)
			from = i + size
		case html && (r == '\u2028' || r == '\u2029'):
			dst = append(dst, s[from:i]...)
			dst = append(dst, `\u202`...)
			dst = append(dst, hexDigits[r&0xf])
			from = i + size
		}
		i += size
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}

// wordBytes is the number of bytes that plainWords checks together.
const wordBytes = 8

// plainWords reports whether s has at least a word of bytes, and no byte needs an escape. The last word may overlap the one
// before.
func plainWords(s string, html bool) bool {
	if len(s) < wordBytes {
		return false
	}
	const each, high = 0x0101010101010101, 0x8080808080808080
	for i := 0; ; {
		t := s[i : i+wordBytes]
		w := uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
			uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
		// A byte's high bit is set if the byte needs an escape. Such a byte is not ASCII, or a control character, or equal to one
		// of the characters below. For an equal byte, x^c is 0, and subtracting 1 borrows. A borrow may also set the bit of a
		// later byte.
		special := w | (w - ' '*each) | ((w ^ '"'*each) - each) | ((w ^ '\\'*each) - each)
		if html {
			special |= ((w ^ '<'*each) - each) | ((w ^ '>'*each) - each) | ((w ^ '&'*each) - each)
		}
		if special&high != 0 {
			return false
		}
		if i == len(s)-wordBytes {
			return true
		}
		i = min(i+wordBytes, len(s)-wordBytes)
	}
}

// Bits of asPlain.
const (
	plainLabel byte = 1 << iota
	plainHTML
)

// asPlain holds, for each ASCII character, the kinds of strings in which it needs no escape.
var asPlain = func() (table [utf8.RuneSelf]byte) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		switch c {
		case '"', '\\':
		case '<', '>', '&':
			table[c] = plainLabel
		default:
			table[c] = plainLabel | plainHTML
		}
	}
	return table
}()

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
}

// appendLabels appends a label set as an object, in the order of the set.
func appendLabels(dst []byte, ls labels.Labels) []byte {
	dst = append(dst, '{')
	first := true
	ls.Range(func(l labels.Label) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendText(dst, l.Name, false)
		dst = append(dst, ':')
		dst = appendText(dst, l.Value, false)
	})
	return append(dst, '}')
}

// AppendTimestamp appends unix milliseconds as seconds, with three decimals or none.
func AppendTimestamp(dst []byte, tsMs int64) []byte {
	ms := uint64(tsMs)
	if tsMs < 0 {
		dst = append(dst, '-')
		ms = -ms
	}
	dst = strconv.AppendUint(dst, ms/1000, 10)
	if rest := ms % 1000; rest != 0 {
		dst = append(dst, '.')
		if rest < 100 {
			dst = append(dst, '0')
		}
		if rest < 10 {
			dst = append(dst, '0')
		}
		dst = strconv.AppendUint(dst, rest, 10)
	}
	return dst
}

// appendFloat appends a value as a quoted number: shortest decimal form, with an exponent below 1e-6 and from 1e21 on.
func appendFloat(dst []byte, v float64) []byte {
	return append(appendShortest(append(dst, '"'), v), '"')
}
