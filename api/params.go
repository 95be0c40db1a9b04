package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"halite/api/receiver"
	"halite/keyschema"
	"halite/query/budget"
)

// formError is the context key of the error in a request's form.
type formError struct{}

// formType is the content type of most bodies. They have one part only.
const formType = "application/x-www-form-urlencoded"

// paramsMax is the largest number of parameters that net/url reads. It reads none of a longer list.
const paramsMax = 10_000

// errParams is the error of a URL or body with too many parameters.
var errParams = fmt.Errorf("more than %d parameters; send several requests", paramsMax)

// checkParams returns errParams if a URL has too many parameters. Many handlers ignore the errors of net/url.
func checkParams(u *url.URL) error {
	if strings.Count(u.RawQuery, "&") >= paramsMax {
		return errParams
	}
	return nil
}

// tooManyParams reports whether err is the error of net/url for too many parameters, which has no name.
func tooManyParams(err error) bool {
	_, known := url.ParseQuery(strings.Repeat("&", paramsMax))
	return known != nil && err.Error() == known.Error()
}

// parseForm reads the parameters of URL and body. It skips a malformed pair, as Prometheus does. A body over a limit is an error,
// and so is a body that stalls. Endpoints that need a well-formed form call strictForm.
func (s *Server) parseForm(w http.ResponseWriter, r *http.Request) (*http.Request, *apiError) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = http.MaxBytesReader(w, r.Body, s.opts.Limits.FormBytesMax)
	}
	err := r.ParseForm()
	if kind := r.Header.Get("Content-Type"); err == nil && !strings.EqualFold(kind, formType) && kind != "" {
		if err = r.ParseMultipartForm(s.opts.Limits.FormBytesMax); errors.Is(err, http.ErrNotMultipart) {
			err = nil
		}
	}
	if err == nil {
		return r, nil
	}
	tooLarge, overLimit := new(http.MaxBytesError), new(budget.LimitError)
	switch {
	case errors.As(err, &overLimit):
		return r, evalError(err)
	case tooManyParams(err):
		return r, badForm(errParams)
	case errors.As(err, &tooLarge), errors.Is(err, multipart.ErrMessageTooLarge):
		return r, badForm(err)
	case receiver.BodyStatus(err) == http.StatusServiceUnavailable:
		return r, &apiError{typ: errUnavailable, err: fmt.Errorf("reading the request body: %w", err)}
	}
	return r.WithContext(context.WithValue(r.Context(), formError{}, err)), nil
}

// strictForm reports a query string or form body with a malformed part.
func strictForm(r *http.Request) *apiError {
	if err, ok := r.Context().Value(formError{}).(error); ok {
		return badForm(err)
	}
	return nil
}

// secondsMax is the largest absolute number of unix seconds whose milliseconds fit an int64.
const secondsMax = math.MaxInt64 / 1000

// Prometheus's clients send these bounds for "from the beginning" and "until the end". They are also the defaults of start and
// end in look-ups.
var (
	minTime = time.Unix(math.MinInt64/1000+62135596801, 0).UTC()
	maxTime = time.Unix(math.MaxInt64/1000-62135596801, 999999999).UTC()

	// Their years have more than four digits, which time.Parse does not accept. So they are compared as text.
	minTimeText = minTime.Format(time.RFC3339Nano)
	maxTimeText = maxTime.Format(time.RFC3339Nano)
)

// parseTime reads a time as unix seconds, with an optional fraction down to milliseconds, or as RFC 3339. Unlike Prometheus it
// refuses NaN and seconds that overflow, which Prometheus turns into arbitrary times.
func parseTime(s string) (time.Time, error) {
	if seconds, err := strconv.ParseFloat(s, 64); err == nil {
		if math.IsNaN(seconds) || math.Abs(seconds) > secondsMax {
			return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", s)
		}
		whole, fraction := math.Modf(seconds)
		millis := math.Round(fraction * 1000)
		return time.Unix(int64(whole), int64(millis)*int64(time.Millisecond)).UTC(), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	switch s {
	case minTimeText:
		return minTime, nil
	case maxTimeText:
		return maxTime, nil
	}
	return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", s)
}

// parseDuration reads a duration as seconds, with an optional fraction, or in Prometheus's notation such as "1m30s".
func parseDuration(s string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(s, 64); err == nil {
		nanos := seconds * float64(time.Second)
		switch {
		case math.IsNaN(nanos):
			return 0, fmt.Errorf("cannot parse %q to a valid duration", s)
		case nanos >= math.MaxInt64 || nanos <= math.MinInt64:
			return 0, fmt.Errorf("cannot parse %q to a valid duration. It overflows int64", s)
		}
		return time.Duration(nanos), nil
	}
	if d, err := model.ParseDuration(s); err == nil {
		return time.Duration(d), nil
	}
	return 0, fmt.Errorf("cannot parse %q to a valid duration", s)
}

// parseLimit reads the limit of a look-up or query; absent and 0 mean unlimited.
func parseLimit(s string) (int, error) {
	if s == "" {
		return 0, nil
	}
	limit, err := strconv.Atoi(s)
	if err != nil {
		return 0, err
	}
	if limit < 0 {
		return 0, errors.New("limit must be non-negative")
	}
	return limit, nil
}

// oneMore raises a limit by one, so that the caller sees whether the limit omits something. Unlimited stays unlimited.
func oneMore(limit int) int {
	if limit > 0 && limit < math.MaxInt {
		return limit + 1
	}
	return limit
}

// timeParam reads the time parameter name, or def if it is absent.
func timeParam(r *http.Request, name string, def time.Time) (time.Time, *apiError) {
	text := r.FormValue(name)
	if text == "" {
		return def, nil
	}
	t, err := parseTime(text)
	if err != nil {
		return time.Time{}, badParam(name, fmt.Errorf("invalid time value for '%s': %w", name, err))
	}
	return t, nil
}

// boundsParam reads start and end, which default to all of time.
func boundsParam(r *http.Request) (start, end time.Time, aerr *apiError) {
	if start, aerr = timeParam(r, "start", minTime); aerr != nil {
		return start, end, aerr
	}
	end, aerr = timeParam(r, "end", maxTime)
	return start, end, aerr
}

// limitParam reads the parameter limit.
func limitParam(r *http.Request) (int, *apiError) {
	limit, err := parseLimit(r.FormValue("limit"))
	if err != nil {
		return 0, badParam("limit", err)
	}
	return limit, nil
}

// selectorTexts returns the distinct match[] parameters of a parsed form. Too many of them are an error.
func (s *Server) selectorTexts(r *http.Request) ([]string, *apiError) {
	texts := r.Form["match[]"]
	if most := s.opts.Limits.SelectorsMax; len(texts) > most {
		return nil, badParam("match[]", fmt.Errorf("the request has %d selectors, more than the limit of %d (query.max-selectors); "+
			"combine selectors with a regular expression or send several requests", len(texts), most))
	}
	if len(texts) < 2 {
		return texts, nil
	}
	seen := make(map[string]struct{}, len(texts))
	distinct := make([]string, 0, len(texts))
	for _, text := range texts {
		if _, ok := seen[text]; !ok {
			seen[text] = struct{}{}
			distinct = append(distinct, text)
		}
	}
	return distinct, nil
}

// matcherSets parses series selectors. Each must have a matcher that does not match the empty string; otherwise it
// selects everything.
func matcherSets(p parser.Parser, selectors []string) ([][]*labels.Matcher, error) {
	sets, err := p.ParseMetricSelectors(selectors)
	if err != nil {
		return nil, err
	}
	for _, set := range sets {
		if !selective(set) {
			return nil, errors.New("match[] must contain at least one non-empty matcher")
		}
	}
	return sets, nil
}

func selective(set []*labels.Matcher) bool {
	for _, m := range set {
		if m != nil && !m.Matches("") {
			return true
		}
	}
	return false
}

// storeBounds clips a time range to the times that the store can hold, in unix milliseconds. ok is false if nothing is left.
func storeBounds(start, end time.Time) (mintMs, maxtMs int64, ok bool) {
	last := int64(keyschema.TimeMaxMs)
	mintMs, maxtMs = max(unixMs(start), 0), min(unixMs(end), last)
	return mintMs, maxtMs, mintMs <= maxtMs
}

// unixMs returns t in unix milliseconds. It saturates, whereas time.Time.UnixMilli overflows for far times.
func unixMs(t time.Time) int64 {
	switch s := t.Unix(); {
	case s >= secondsMax:
		return math.MaxInt64
	case s <= -secondsMax:
		return math.MinInt64
	default:
		return s*1000 + int64(t.Nanosecond())/int64(time.Millisecond)
	}
}
