package csv

import "bytes"

// place is a place in a row.
type place uint8

const (
	fieldStart place = iota
	inField
	inQuotes
	afterQuote // that ends a field, or is the first of two
	inBadRow   // up to the end of the line
)

// WholeRows returns the size of the whole rows with which a text begins. It is receiver.Pieces.Whole of the protocol. A line
// break in a quoted field does not end a row. A misplaced quote makes its line bad, and the next line begins a row.
func WholeRows(text []byte) int {
	if bytes.IndexByte(text, '"') < 0 {
		return bytes.LastIndexByte(text, '\n') + 1
	}
	end, at := 0, fieldStart
	for n, c := range text {
		switch {
		case c == '\n' && at != inQuotes:
			end, at = n+1, fieldStart
		case at == inBadRow:
		case c == '"':
			at = quote(at)
		case at == inQuotes:
		case c == ',':
			at = fieldStart
		case at == afterQuote && c != '\r':
			at = inBadRow
		default:
			at = inField
		}
	}
	return end
}

// quote returns the place after a quote.
func quote(at place) place {
	switch at {
	case fieldStart, afterQuote:
		return inQuotes
	case inQuotes:
		return afterQuote
	}
	return inBadRow
}
