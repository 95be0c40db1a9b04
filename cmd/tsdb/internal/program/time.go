package program

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// TimeForms is the text in the help of flags about times.
const TimeForms = "an RFC 3339 time, a date (UTC), seconds since 1970, or a duration before now such as 2h or 7d"

// ParseMs parses the value of a time flag into milliseconds since 1970. An empty text changes nothing.
func ParseMs(flag, text string, now time.Time, toMs *int64) error {
	if text == "" {
		return nil
	}
	at, err := ParseTime(text, now)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	*toMs = at.UnixMilli()
	return nil
}

// ParseRange parses the values of the flags --from and --to as ParseMs does.
func ParseRange(from, to string, now time.Time, fromMs, toMs *int64) error {
	return errors.Join(ParseMs("from", from, now, fromMs), ParseMs("to", to, now, toMs))
}

// secondsMax is the year 9999.
const secondsMax = 253402300799

// ParseTime parses a time in one of TimeForms. It also accepts now and now-2h. The result is rounded to milliseconds.
func ParseTime(text string, now time.Time) (time.Time, error) {
	before, relative := strings.CutPrefix(text, "now-")
	if text == "now" {
		return now.Truncate(time.Millisecond), nil
	}
	if d, err := model.ParseDuration(before); err == nil && (relative || text != "0") {
		return now.Add(-time.Duration(d)).Truncate(time.Millisecond), nil
	}
	for _, form := range []string{time.RFC3339Nano, time.DateOnly} {
		if at, err := time.Parse(form, text); err == nil {
			return at.Truncate(time.Millisecond), nil
		}
	}
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(seconds) <= secondsMax {
		return time.UnixMilli(int64(math.Round(seconds * 1000))), nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time: give %s", text, TimeForms)
}
