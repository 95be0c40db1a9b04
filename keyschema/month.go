package keyschema

// MonthMax is the last month, since January 1970, that a key can name. Keys hold MonthMax − month, so that the newest row of a
// series sorts first.
const MonthMax = 99_999

// MonthDigits is the number of digits at the end of the key of a month.
const MonthDigits = 5

// AppendMonthKey appends the row key of a series and month: a prefix made by [Rule.AppendPrefix], then the five digits of
// MonthMax − month. month is 0…MonthMax.
func AppendMonthKey(dst, prefix []byte, month int64) []byte {
	return appendDigits(append(dst, prefix...), int(MonthMax-month), MonthDigits)
}

// CutMonth splits a row key that AppendMonthKey makes into the prefix of its series and its month. ok is false for a key that
// does not end in a month.
func CutMonth(key []byte) (prefix []byte, month int64, ok bool) {
	prefix, reversed, ok := cutDigits(key, MonthDigits)
	return prefix, MonthMax - reversed, ok
}

// cutDigits splits a key that ends in a separator and a number of digits.
func cutDigits(key []byte, digits int) (prefix []byte, n int64, ok bool) {
	at := len(key) - digits
	if at < 1 || key[at-1] != fieldSep {
		return nil, 0, false
	}
	n, ok = parseDigits(key[at:])
	return key[:at], n, ok
}
