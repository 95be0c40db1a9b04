package api

import (
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/prometheus/prometheus/model/labels"
)

// wholeMax bounds the numbers that are written as integers: up to here every integer is a float64 of its own.
const wholeMax = 1 << 53

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD, so that the answer stays JSON.
// With html true the characters < > & and U+2028, U+2029 are escaped too, as Prometheus does everywhere but in labels.
func appendString(dst []byte, s string, html bool) []byte {
	dst = append(dst, '"')
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

// Bits of asPlain.
const (
	plainLabel byte = 1 << iota
	plainHTML
)

// asPlain tells for each ASCII character in which strings it stands for itself.
var asPlain = func() (of [utf8.RuneSelf]byte) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		switch c {
		case '"', '\\':
		case '<', '>', '&':
			of[c] = plainLabel
		default:
			of[c] = plainLabel | plainHTML
		}
	}
	return of
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

// appendStrings appends a list of strings, [] if it is empty.
func appendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, s, true)
	}
	return append(dst, ']')
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
		dst = appendString(dst, l.Name, false)
		dst = append(dst, ':')
		dst = appendString(dst, l.Value, false)
	})
	return append(dst, '}')
}

// appendTimestamp appends unix milliseconds as seconds, with three decimals or none.
func appendTimestamp(dst []byte, tsMs int64) []byte {
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
	// Counters are mostly whole numbers, which are several times faster to write than fractions.
	if whole := int64(v); float64(whole) == v && whole != 0 && -wholeMax <= whole && whole <= wholeMax {
		dst = strconv.AppendInt(append(dst, '"'), whole, 10)
		return append(dst, '"')
	}
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	dst = append(dst, '"')
	dst = strconv.AppendFloat(dst, v, format, -1, 64)
	return append(dst, '"')
}
