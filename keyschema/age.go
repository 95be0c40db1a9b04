package keyschema

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Age is how long something is kept; 0 is for ever. As text it is a number and a unit, or several from the longest unit
// to the shortest: "36h", "7d", "1y6w"; and "0".
type Age time.Duration

// AgeMin is the shortest age but 0: a day, because what is too old is dropped by the day.
const AgeMin = Age(24 * time.Hour)

// ageUnits are the units of an age, the longest first. A year has 365 days.
var ageUnits = [...]struct {
	name string
	age  time.Duration
}{
	{"y", 365 * 24 * time.Hour}, {"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour},
	{"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond},
}

// ParseAge is the inverse of Age.String. The error wraps [ErrBadAge].
func ParseAge(text string) (Age, error) {
	if text == "0" {
		return 0, nil
	}
	fault := func() (Age, error) {
		return 0, fmt.Errorf("%w: %q is not like 36h, 7d or 1y; 0 is for ever", ErrBadAge, text)
	}
	var sum time.Duration
	rest, next := text, 0
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		if err != nil {
			return fault()
		}
		rest = rest[digits:]
		name := rest[:len(rest)-len(strings.TrimLeft(rest, "ydwhms"))]
		for next < len(ageUnits) && ageUnits[next].name != name {
			next++
		}
		if next == len(ageUnits) || n > int64((math.MaxInt64-sum)/ageUnits[next].age) {
			return fault()
		}
		sum += time.Duration(n) * ageUnits[next].age
		rest = rest[len(name):]
		next++
	}
	if text == "" {
		return fault()
	}
	return Age(sum), nil
}

// String is the shortest text of the age; what is below a millisecond is cut off.
func (a Age) String() string {
	rest := time.Duration(a).Truncate(time.Millisecond)
	if rest <= 0 {
		return "0"
	}
	var out []byte
	for _, u := range ageUnits {
		// 400d is what people write, not 1y5w: years and weeks are for whole ones only.
		if u.age > time.Duration(AgeMin) && rest%u.age != 0 {
			continue
		}
		if n := rest / u.age; n > 0 {
			out = append(strconv.AppendInt(out, int64(n), 10), u.name...)
			rest %= u.age
		}
	}
	return string(out)
}

// MarshalText is String.
func (a Age) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText is ParseAge for a rule. The error wraps [ErrBadRules] as well.
func (a *Age) UnmarshalText(text []byte) error {
	age, err := ParseAge(string(text))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadRules, err)
	}
	*a = age
	return nil
}

// Outlives reports whether what is kept for a is kept longer than what is kept for b.
func (a Age) Outlives(b Age) bool { return b > 0 && (a == 0 || a > b) }

// CutoffMs is the oldest time that is kept at nowMs; 0 if all times are.
func (a Age) CutoffMs(nowMs int64) int64 {
	if a <= 0 {
		return 0
	}
	return max(0, nowMs-time.Duration(a).Milliseconds())
}

func (a Age) words() string {
	if a == 0 {
		return "for ever"
	}
	return a.String()
}
