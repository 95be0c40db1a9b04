package keyaudit

import (
	"math"
	"net/mail"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kind is the kind of data that a label value seems to hold.
type kind string

// The kinds of values that do not belong in keys.
const (
	kindNone  kind = ""
	kindEmail kind = "e-mail address"
	kindIP    kind = "IP address"
	kindPhone kind = "phone number"
	kindCard  kind = "card number"
	kindToken kind = "token"
	kindURL   kind = "URL with parameters"
	kindUUID  kind = "random id"
	kindTime  kind = "time"
	kindCount kind = "sequential id"
)

// personal reports whether values of the kind may name a person, or may be a secret.
func (k kind) personal() bool {
	return slices.Contains([]kind{kindEmail, kindIP, kindPhone, kindCard, kindToken, kindURL}, k)
}

// patterns recognise kinds by the form of a value.
type patterns struct{ phone, token, uuid *regexp.Regexp }

func newPatterns() *patterns {
	return &patterns{
		phone: regexp.MustCompile(`^(\+|00)[1-9][0-9 ()./-]{6,20}$`),
		token: regexp.MustCompile(`^(eyJ[\w-]+\.[\w-]+\.[\w-]+|gh[pousr]_\w{20,}|xox[abp]-[\w-]{10,}|AKIA[0-9A-Z]{16})$`),
		uuid:  regexp.MustCompile(`(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$`),
	}
}

// classify returns the kind of one value. It cannot recognise sequential ids, which only a list of values shows.
func (p *patterns) classify(value string) kind {
	switch {
	case p.token.MatchString(value):
		return kindToken
	case p.uuid.MatchString(value):
		return kindUUID
	case isTime(value):
		return kindTime
	case p.phone.MatchString(value):
		return kindPhone
	case isCard(value):
		return kindCard
	case isEmail(value):
		return kindEmail
	case isPublicHost(value):
		return kindIP
	case strings.Contains(value, "://") && hasParameters(value):
		return kindURL
	}
	return kindNone
}

func isEmail(value string) bool {
	address, err := mail.ParseAddress(value)
	return err == nil && address.Address == value && strings.Contains(value[strings.LastIndexByte(value, '@'):], ".")
}

// isPublicHost accepts addresses without a port. An address with a port names a server that is scraped.
func isPublicHost(value string) bool {
	address, err := netip.ParseAddr(value)
	return err == nil && !address.IsLoopback() && !address.IsUnspecified() && !address.IsMulticast()
}

// hasParameters reports whether a URL has a user or query parameters.
func hasParameters(value string) bool {
	u, err := url.Parse(value)
	return err == nil && u.Host != "" && (u.User != nil || u.RawQuery != "")
}

// Numbers of these ranges are times in seconds, milliseconds or nanoseconds since 1970, from 2001 to 2096.
const (
	secondsMin = 1_000_000_000
	secondsMax = 4_000_000_000
)

func isTime(value string) bool {
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, time.DateOnly, "2006-01-02T15:04"} {
		if _, err := time.Parse(layout, value); err == nil {
			return true
		}
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return false
	}
	for _, unit := range []int64{1, 1e3, 1e9} {
		if n >= secondsMin*unit && n < secondsMax*unit {
			return true
		}
	}
	return false
}

// isCard accepts 13 to 19 digits, possibly in groups, with a correct check digit.
func isCard(value string) bool {
	digits := strings.NewReplacer(" ", "", "-", "").Replace(value)
	if len(digits) < 13 || len(digits) > 19 {
		return false
	}
	sum := 0
	for i := range len(digits) {
		d := int(digits[len(digits)-1-i]) - '0'
		if d < 0 || d > 9 {
			return false
		}
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0 && strings.Trim(digits, digits[:1]) != ""
}

// Sequential ids are at least sequenceMin numbers that fill at least one in sequenceGap places of their range.
const (
	sequenceMin = 50
	sequenceGap = 8
)

// sequential returns the number of values that are whole numbers close to each other, possibly after a common text such as
// "order-". Numbers below 1,000 may be shards or ports of a small fleet, so most must lie above it.
func sequential(values []string) int {
	var numbers []float64
	for _, v := range values {
		digits := v[strings.LastIndexFunc(v, func(r rune) bool { return r < '0' || r > '9' })+1:]
		if n, err := strconv.ParseFloat(digits, 64); err == nil && digits != "" {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) < sequenceMin {
		return 0
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	// The middle nine tenths decide, so that a few other numbers do not hide a sequence.
	cut := len(numbers) / 20
	middle := numbers[cut : len(numbers)-cut]
	span := middle[len(middle)-1] - middle[0] + 1
	if len(numbers) < sequenceMin || middle[len(middle)/2] < 1000 || span > math.Round(sequenceGap*float64(len(middle))) {
		return 0
	}
	return len(numbers)
}
