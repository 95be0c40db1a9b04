package status

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"halite/query/limits"
	"halite/query/topqueries"
)

// Errors of requests. All other errors are the server's fault.
var (
	// ErrBadRequest means that the parameters of a request are invalid.
	ErrBadRequest = errors.New("bad request")
	// ErrOff means that the server does not have what the request asks for.
	ErrOff = errors.New("the server does not have this")
	// ErrUnknown means that the request names something that does not exist.
	ErrUnknown = errors.New("unknown")
	// ErrFull means that a limit refuses to add something.
	ErrFull = errors.New("a limit is reached")
)

// limitDefault is the parameter limit of a request without one.
const limitDefault = 20

// Options of a Handler.
type Options struct {
	// TopQueries has the costs of queries; nil answers with none.
	TopQueries *topqueries.Tracker
	// QueryLimits takes query rules; nil answers with ErrOff.
	QueryLimits *limits.Control
	// Index looks up series and labels; one without Select answers with ErrOff.
	Index  Index
	Keys   Keys
	Now    func() time.Time // time.Now
	Limits Limits
}

// Limits bound the cost of a request. A zero field means its documented default.
type Limits struct {
	// CardinalityTimeMax is the time for counting series; 10 s. Then the response has the counts so far.
	CardinalityTimeMax time.Duration
	// CardinalityMetricsMax is the number of metrics that one request counts; 100,000.
	CardinalityMetricsMax int
	// CardinalityValuesMax is the number of values of a label that one request tells apart; 100,000.
	CardinalityValuesMax int
	// SeriesBytesMax is the length of the series of EncodeKey; 64 KiB.
	SeriesBytesMax int
	// ListMax bounds the parameter limit; 10,000.
	ListMax int
	// DaysMax bounds the parameter days; 31.
	DaysMax int64
}

func (l Limits) withDefaults() Limits {
	l.CardinalityTimeMax = cmp.Or(l.CardinalityTimeMax, 10*time.Second)
	l.CardinalityMetricsMax = cmp.Or(l.CardinalityMetricsMax, 100_000)
	l.CardinalityValuesMax = cmp.Or(l.CardinalityValuesMax, 100_000)
	l.SeriesBytesMax = cmp.Or(l.SeriesBytesMax, 64<<10)
	l.ListMax, l.DaysMax = cmp.Or(l.ListMax, 10_000), cmp.Or(l.DaysMax, 31)
	return l
}

// Handler answers requests. The form of each request is parsed. Responses are documents for encoding/json; nil means a response
// without a body.
type Handler struct{ opts Options }

// New returns a Handler.
func New(o Options) *Handler {
	o.Limits = o.Limits.withDefaults()
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Handler{o}
}

// badParam is an ErrBadRequest that names a parameter.
func badParam(name string, err error) error {
	return fmt.Errorf("%w: parameter %q: %w", ErrBadRequest, name, err)
}

// limitOf reads the parameter limit.
func (h *Handler) limitOf(r *http.Request) (int, error) {
	text := r.FormValue("limit")
	if text == "" {
		return limitDefault, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > h.opts.Limits.ListMax {
		return 0, badParam("limit", fmt.Errorf("must be a number from 1 to %d", h.opts.Limits.ListMax))
	}
	return limit, nil
}

// onlyParams refuses parameters that are not known.
func onlyParams(r *http.Request, known ...string) error {
	for name := range r.Form {
		if !slices.Contains(known, name) {
			return badParam(name, fmt.Errorf("is unknown; known are %s", strings.Join(known, ", ")))
		}
	}
	return nil
}
