package keyschema

// Units of time in row keys.
const (
	// HourMs is an hour in milliseconds.
	HourMs = 3_600_000
	// HourMax is the last hour that a key can name (in the year 3110). Keys hold HourMax − hour, so that the newest row of a
	// series sorts first.
	HourMax = 9_999_999
	// TimeMaxMs is the last timestamp that a key can name: the last millisecond of HourMax.
	TimeMaxMs = HourMax*HourMs + HourMs - 1
	// DayHours is the number of hours in a day.
	DayHours = 24
	// DayMs is a day in milliseconds.
	DayMs = DayHours * HourMs

	// HourDigits is the number of digits at the end of a row key.
	HourDigits = 7
)

// HourOf returns the hour since 1970 that contains tsMs ≥ 0.
func HourOf(tsMs int64) int64 { return tsMs / HourMs }

// HourStartMs returns the first millisecond of an hour.
func HourStartMs(hour int64) int64 { return hour * HourMs }

// HourCellMs returns the timestamp of the cells in an hour's row: the last millisecond of the hour. So a garbage collection
// by cell age implements retention exactly, and an engine can place cells by the time of their data.
func HourCellMs(hour int64) int64 { return hour*HourMs + HourMs - 1 }

// AppendHour appends the seven digits of HourMax − hour to a prefix made by [Rule.AppendPrefix]. It panics unless 0 ≤ hour ≤
// HourMax, because any seven digits name the row of some hour.
func AppendHour(dst []byte, hour int64) []byte {
	if hour < 0 || hour > HourMax {
		panic("keyschema: hour outside 0..HourMax")
	}
	return appendDigits(dst, int(HourMax-hour), HourDigits)
}

// ParseHour reads the digits that AppendHour appends. ok is false for other text.
func ParseHour(digits []byte) (hour int64, ok bool) {
	if len(digits) != HourDigits {
		return 0, false
	}
	reversed, ok := parseDigits(digits)
	return HourMax - reversed, ok
}

// CutHour splits a row key into the prefix of its series, which [Rule.AppendPrefix] makes, and its hour. ok is false for a
// key that does not end in an hour. CutHour does not check the prefix; [ParseRowKey] does.
func CutHour(key []byte) (prefix []byte, hour int64, ok bool) {
	prefix, reversed, ok := cutDigits(key, HourDigits)
	return prefix, HourMax - reversed, ok
}

// appendDigits appends n ≥ 0 in decimal with exactly width digits; n must fit.
func appendDigits(dst []byte, n, width int) []byte {
	var digits [20]byte
	for i := width - 1; i >= 0; i-- {
		digits[i] = byte('0' + n%10)
		n /= 10
	}
	return append(dst, digits[:width]...)
}

// parseDigits reads text that consists of decimal digits only.
func parseDigits(text []byte) (int64, bool) {
	var n int64
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, len(text) > 0 && len(text) <= 18
}
