package keyschema

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Age is a retention time; 0 keeps data forever. Its text is "0", or numbers with units from the longest unit to the
// shortest: "36h", "7d", "1y6w".
type Age time.Duration

// AgeMin is the shortest age other than 0. It is a day, because retention drops whole days.
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
		return 0, fmt.Errorf("%w: %q is not a duration like 36h, 7d or 1y; 0 keeps data forever", ErrBadAge, text)
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

// String returns the shortest text of the age. It truncates to milliseconds.
func (a Age) String() string {
	rest := time.Duration(a).Truncate(time.Millisecond)
	if rest <= 0 {
		return "0"
	}
	var out []byte
	for _, u := range ageUnits {
		// Years and weeks appear only if they divide the age: people write 400d, not 1y5w.
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

// MarshalText returns the same text as String.
func (a Age) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText parses the age of a rule, as ParseAge does. The error wraps [ErrBadRules] as well.
func (a *Age) UnmarshalText(text []byte) error {
	age, err := ParseAge(string(text))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadRules, err)
	}
	*a = age
	return nil
}

// Outlives reports whether a is longer than b.
func (a Age) Outlives(b Age) bool { return b > 0 && (a == 0 || a > b) }

// CutoffMs returns the oldest time that retention keeps at nowMs; 0 if it keeps every time.
func (a Age) CutoffMs(nowMs int64) int64 {
	if a <= 0 {
		return 0
	}
	return max(0, nowMs-time.Duration(a).Milliseconds())
}

func (a Age) text() string {
	if a == 0 {
		return "forever"
	}
	return a.String()
}
