package request

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"halite/query/opentsdb/aggregation"
)

// Zone returns the time zone with an IANA name; "" means UTC.
func (p *Parser) Zone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, bad("Invalid timezone name: %s", name)
	}
	return zone, nil
}

// Times parses the start and the end of a query into milliseconds since 1970. An empty end means now.
func (p *Parser) Times(start, end string, zone *time.Location) (startMs, endMs int64, err error) {
	if start == "" {
		return 0, 0, bad("Missing start time")
	}
	if startMs, err = p.Time(start, zone); err != nil {
		return 0, 0, err
	}
	if endMs = p.now().UnixMilli(); end != "" {
		if endMs, err = p.Time(end, zone); err != nil {
			return 0, 0, err
		}
	}
	if endMs < startMs {
		return 0, 0, bad("End time [%d] must be greater than or equal to the start time [%d]",
			endMs, startMs)
	}
	return startMs, endMs, nil
}

// timeMaxMs is the largest time that OpenTSDB accepts.
const timeMaxMs = 9_999_999_999_999

// Time parses a time into milliseconds since 1970. Examples: now, 1h-ago, 1500000000, 1500000000123, 1500000000.123,
// 1500000000123ms, 2017/07/14, 2017/07/14 02:40, 2017/07/14-02:40:00.
func (p *Parser) Time(text string, zone *time.Location) (int64, error) {
	ms, err := p.parseTime(text, zone)
	if err == nil && (ms < 0 || ms > timeMaxMs) {
		return 0, bad("Invalid timestamp: %d", ms)
	}
	return ms, err
}

func (p *Parser) parseTime(text string, zone *time.Location) (int64, error) {
	lower := strings.ToLower(text)
	if digits, ok := strings.CutSuffix(text, "ms"); ok && isDigits(digits) {
		return strconv.ParseInt(digits, 10, 64)
	}
	if lower == "now" {
		return p.now().UnixMilli(), nil
	}
	if before, ok := strings.CutSuffix(lower, "-ago"); ok {
		count, unit, err := ParseDuration(before)
		if err != nil {
			return 0, err
		}
		ago := aggregation.Downsampling{Count: count, Unit: unit}
		return max(0, p.now().UnixMilli()-ago.IntervalMs()), nil
	}
	if strings.ContainsAny(text, "/:") {
		return parseDate(text, zone)
	}
	return parseNumber(text)
}

func parseDate(text string, zone *time.Location) (int64, error) {
	layout := map[int]string{10: "2006/01/02", 16: "2006/01/02 15:04", 19: "2006/01/02 15:04:05"}[len(text)]
	if layout == "" {
		return 0, bad("Invalid absolute date: %s", text)
	}
	if strings.Contains(text, "-") {
		layout = strings.Replace(layout, " ", "-", 1)
	}
	t, err := time.ParseInLocation(layout, text, zone)
	if err != nil {
		return 0, bad("Invalid date: %s. %s", text, err)
	}
	return t.UnixMilli(), nil
}

// parseNumber parses seconds, milliseconds, or seconds with up to three decimals.
func parseNumber(text string) (int64, error) {
	whole, decimals, dotted := strings.Cut(text, ".")
	if dotted && (len(whole) != secondsDigits || !isDigits(whole) || !isDigits(decimals) || len(decimals) > 3) {
		return 0, bad("Invalid time: %s. Millisecond timestamps must be in the format "+
			"<seconds>.<ms> where the milliseconds are limited to 3 digits", text)
	}
	v, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return 0, bad("Invalid time: %s. %s", text, notNumber(whole))
	}
	if v < 0 {
		return 0, bad("Invalid time: %s. Negative timestamps are not supported.", text)
	}
	if dotted {
		ms, _ := strconv.ParseInt((decimals + "00")[:3], 10, 64)
		return v*1000 + ms, nil
	}
	if len(text) <= secondsDigits {
		v *= 1000
	}
	return v, nil
}

// notNumber says in OpenTSDB's words why a text is not a whole number.
func notNumber(text string) string {
	digits := strings.TrimLeft(text[:min(1, len(text))], "+-") + text[min(1, len(text)):]
	at := strings.IndexFunc(digits, func(c rune) bool { return c < '0' || c > '9' })
	switch {
	case text == "":
		return "Empty string"
	case digits == "":
		return "Just a sign, no value: " + text
	case len(digits) > len("9223372036854775807"):
		return "Value too long: " + text
	case at >= 0:
		return fmt.Sprintf("Invalid character '%c' in %s", []rune(digits[at:])[0], text)
	}
	return "Overflow in " + text
}

// InSeconds reports whether a time that Time accepts is a number of seconds.
func InSeconds(text string) bool { return isDigits(text) && len(text) <= secondsDigits }

// secondsDigits is the largest number of digits of a time in seconds. A longer number is in milliseconds.
const secondsDigits = 10

func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// durationMaxMs bounds durations: a thousand years.
const durationMaxMs = 1000 * 365 * 24 * 3600 * 1000

// ParseDuration parses a whole positive number with a unit: ms, s, m, h, d, w, n or y.
func ParseDuration(text string) (count int, unit aggregation.Unit, err error) {
	if text == "" {
		return 0, 0, bad("Cannot parse null or empty duration")
	}
	suffix := strings.TrimLeft(text, "0123456789")
	digits := text[:len(text)-len(suffix)]
	if suffix == "" {
		return 0, 0, bad("Invalid duration, must have an integer and unit: %s", text)
	}
	count, err = strconv.Atoi(digits)
	if err != nil {
		return 0, 0, bad("Invalid duration (number): %s", text)
	}
	if count <= 0 {
		return 0, 0, bad("Zero or negative duration: %s", text)
	}
	units := map[string]aggregation.Unit{
		"ms": aggregation.Millisecond, "s": aggregation.Second, "m": aggregation.Minute, "h": aggregation.Hour,
		"d": aggregation.Day, "w": aggregation.Week, "n": aggregation.Month, "y": aggregation.Year,
	}
	unit, ok := units[strings.ToLower(suffix)]
	if !ok {
		return 0, 0, bad("Invalid duration (suffix): %s", text)
	}
	one := aggregation.Downsampling{Count: 1, Unit: unit}
	if int64(count) > durationMaxMs/one.IntervalMs() || count > math.MaxInt32 && unit != aggregation.Millisecond {
		return 0, 0, bad("Invalid duration: %s is longer than a thousand years", text)
	}
	return count, unit, nil
}

// Downsampling parses a specification such as 5m-avg, 1dc-sum-zero, 0all-max.
func (p *Parser) Downsampling(text string, zone *time.Location) (*aggregation.Downsampling, error) {
	parts := strings.Split(strings.TrimRight(text, "-"), "-") // OpenTSDB ignores empty parts at the end
	if len(parts) < 2 || parts[0] == "" {
		return nil, bad("Invalid downsampling specifier '%s': must provide at least interval and function",
			text)
	}
	if len(parts) > 3 {
		return nil, bad("Invalid downsampling specifier '%s': must consist of interval, function, and "+
			"optional fill policy", text)
	}
	d := &aggregation.Downsampling{Zone: zone}
	interval := parts[0]
	if regexp.MustCompile(`^[0-9]*all$`).MatchString(interval) {
		d.All = true
	} else {
		var err error
		interval, d.Calendar = strings.CutSuffix(interval, "c")
		if d.Count, d.Unit, err = ParseDuration(interval); err != nil {
			return nil, err
		}
	}
	if d.Function = p.aggregators[parts[1]]; d.Function == nil {
		return nil, bad("No such downsampling function: %s", parts[1])
	}
	if !d.Function.Groups() {
		return nil, bad("cannot use the NONE aggregator for downsampling")
	}
	if len(parts) == 3 {
		var err error
		if d.Fill, err = ParseFill(parts[2]); err != nil {
			return nil, err
		}
		if d.Fill == aggregation.FillScalar {
			return nil, bad("Invalid downsampling specifier '%s': scalar needs a value, which only "+
				"/api/query/exp takes", text)
		}
	}
	return d, nil
}

// ParseFill parses the name of a fill policy.
func ParseFill(name string) (aggregation.Fill, error) {
	fills := map[string]aggregation.Fill{
		"none": aggregation.FillNothing, "nan": aggregation.FillNaN, "null": aggregation.FillNull,
		"zero": aggregation.FillZero, "scalar": aggregation.FillScalar,
	}
	fill, ok := fills[strings.ToLower(name)]
	if !ok {
		return 0, bad("Unrecognized fill policy: %s", name)
	}
	return fill, nil
}
