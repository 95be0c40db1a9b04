package opentsdb

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unsafe"
)

// Fault is the fault of a data point, in OpenTSDB's words.
type Fault struct {
	// Number is set if a number does not parse. Otherwise an argument is illegal.
	Number bool
	Text   string
}

func (f *Fault) Error() string { return f.Text }

func argument(format string, args ...any) error { return &Fault{Text: fmt.Sprintf(format, args...)} }

func number(format string, args ...any) error {
	return &Fault{Number: true, Text: fmt.Sprintf(format, args...)}
}

const (
	// secondsMax is the largest timestamp in seconds. A larger one is in milliseconds.
	secondsMax = math.MaxUint32
	// millisecondsMax is the largest timestamp in milliseconds.
	millisecondsMax = 9_999_999_999_999
)

// milliseconds converts a timestamp in seconds or milliseconds since 1970 into milliseconds.
func milliseconds(ts int64) (int64, error) {
	switch {
	case ts <= 0:
		return 0, argument("invalid timestamp: %d", ts)
	case ts <= secondsMax:
		return 1000 * ts, nil
	case ts <= millisecondsMax:
		return ts, nil
	}
	return 0, argument("bad timestamp=%d", ts)
}

// parseTime reads the timestamp of a line: seconds, milliseconds, or seconds with up to three decimals.
func parseTime(text []byte) (int64, error) {
	whole, decimals, hasDot := bytes.Cut(text, []byte{'.'})
	ts, err := parseLong(whole)
	if err != nil {
		return 0, err
	}
	if !hasDot || len(decimals) == 0 {
		return milliseconds(ts)
	}
	ms, err := parseLong(decimals)
	if err != nil {
		return 0, err
	}
	if ts <= 0 || ts > secondsMax || len(decimals) > 3 || decimals[0] < '0' {
		return 0, argument("invalid timestamp: %s", clip(text))
	}
	for n := len(decimals); n < 3; n++ {
		ms *= 10
	}
	return 1000*ts + ms, nil
}

// parseLong reads a whole number, in Java's range of a long.
func parseLong(text []byte) (int64, error) {
	if len(text) == 0 {
		return 0, number("Empty string")
	}
	if len(text) < 18 { // it fits
		v, ok := int64(0), true
		for _, c := range text {
			if c -= '0'; c > 9 {
				ok = false
				break
			}
			v = 10*v + int64(c)
		}
		if ok {
			return v, nil
		}
	}
	return parseAnyLong(text)
}

// parseAnyLong is Tags.parseLong of OpenTSDB, with its errors: it counts digits before it looks at them.
func parseAnyLong(text []byte) (int64, error) {
	digits, signed := text, text[0] == '+' || text[0] == '-'
	if signed {
		digits = text[1:]
	}
	switch {
	case len(digits) == 0:
		return 0, number("Just a sign, no value: %s", clip(text))
	case len(digits) > len("9223372036854775807"):
		return 0, number("Value too long: %s", clip(text))
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, number("Invalid character '%s' in %s", clip([]byte{c}), clip(text))
		}
	}
	v, err := strconv.ParseInt(short(text), 10, 64)
	if err != nil {
		return 0, number("Overflow in %s", clip(text))
	}
	return v, nil
}

// exactMax is the largest number up to which a float64 represents all whole numbers.
const exactMax = 1 << 53

// parseValue reads the value of a data point. rounded is set if a float64 does not represent a whole number exactly.
func parseValue(text, metric []byte, tsMs int64) (v float64, rounded bool, err error) {
	decimal, hexadecimal := false, false
	for _, c := range text {
		decimal = decimal || c == '.' || c == 'e' || c == 'E'
		hexadecimal = hexadecimal || c == 'x' || c == 'X'
	}
	if !decimal {
		whole, err := parseLong(text)
		if err != nil {
			return 0, false, err
		}
		v = float64(whole)
		if whole > exactMax || whole < -exactMax {
			rounded = v >= math.MaxInt64 || int64(v) != whole
		}
		return v, rounded, nil
	}
	v, err = strconv.ParseFloat(short(text), 64)
	switch {
	case errors.Is(err, strconv.ErrRange) && math.IsInf(v, 0), err == nil && (math.IsInf(v, 0) || math.IsNaN(v)):
		return 0, false, infinite(v, metric, tsMs)
	case err != nil && !errors.Is(err, strconv.ErrRange) || hexadecimal:
		return 0, false, number("For input string: \"%s\"", clip(text))
	}
	return v, false, nil
}

// infinite is the error of a value that is infinite or not a number.
func infinite(v float64, metric []byte, tsMs int64) error {
	name, ts := strings.TrimPrefix(strconv.FormatFloat(v, 'f', -1, 64), "+"), tsMs
	if strings.HasSuffix(name, "Inf") {
		name += "inity"
	}
	if tsMs%1000 == 0 && tsMs <= 1000*secondsMax {
		ts /= 1000
	}
	return argument("value is NaN or Infinite: %s for metric=%s timestamp=%d", name, clip(metric), ts)
}

// short returns a short text for strconv, without a copy.
func short(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
