package tools

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"halite/query/opentsdb/request"
)

// arguments are the parsed arguments of scan and query.
type arguments struct {
	startMs, endMs int64
	queries        []subQuery
}

// subQuery is a sub-query in the form of the body of /api/query.
type subQuery struct {
	Aggregator  string            `json:"aggregator"`
	Metric      string            `json:"metric"`
	Tags        map[string]string `json:"tags"`
	Rate        bool              `json:"rate,omitempty"`
	RateOptions *rateOptions      `json:"rateOptions,omitempty"`
	Downsample  string            `json:"downsample,omitempty"`
}

type rateOptions struct {
	Counter    bool  `json:"counter"`
	CounterMax int64 `json:"counterMax,omitempty"`
	ResetValue int64 `json:"resetValue,omitempty"`
}

// parseArguments parses the arguments of scan and query. Dates without a zone are in zone, and the end is now if it is missing.
func parseArguments(args []string, now time.Time, zone *time.Location) (out arguments, err error) {
	p := request.NewParser(func() time.Time { return now }, request.Limits{})
	if len(args) < 3 {
		return out, fmt.Errorf("not enough arguments: %s", argumentsHelp)
	}
	if out.startMs, err = p.Time(args[0], zone); err != nil {
		return out, fmt.Errorf("START: %w", err)
	}
	out.endMs = now.UnixMilli()
	rest := args[1:]
	if len(args) > 3 && isTime(args[1]) {
		if out.endMs, err = p.Time(args[1], zone); err != nil {
			return out, fmt.Errorf("END: %w", err)
		}
		rest = args[2:]
	}
	if out.endMs < out.startMs {
		return out, fmt.Errorf("the end %s is before the start %s", args[1], args[0])
	}
	w := &words{rest: rest, aggregators: p.Aggregators()}
	for strings.HasPrefix(w.peek(), "+") { // options of gnuplot draw graphs only
		w.next("")
	}
	for w.more() || len(out.queries) == 0 {
		q, err := w.query()
		if err != nil {
			return out, err
		}
		out.queries = append(out.queries, q)
	}
	return out, nil
}

// isTime reports whether OpenTSDB takes the second argument as the end rather than as an aggregator.
func isTime(text string) bool {
	if strings.HasPrefix(text, "+") {
		return false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return strings.ContainsAny(text, ":/-") || err == nil && n > 0
}

// words are the arguments that are still to be parsed.
type words struct {
	rest        []string
	aggregators []string
}

func (w *words) more() bool { return len(w.rest) > 0 }

// peek returns the next argument, or "" at the end.
func (w *words) peek() string {
	if len(w.rest) == 0 {
		return ""
	}
	return w.rest[0]
}

// next takes the next argument. what names it in the error.
func (w *words) next(what string) (string, error) {
	word := w.peek()
	if word == "" {
		return "", fmt.Errorf("%s is missing: %s", what, argumentsHelp)
	}
	w.rest = w.rest[1:]
	return word, nil
}

// function takes the name of an aggregator.
func (w *words) function(what string) (string, error) {
	name, err := w.next(what)
	if err == nil && !slices.Contains(w.aggregators, name) {
		err = fmt.Errorf("%s: no such aggregator: %s. There are %s", what, name, strings.Join(w.aggregators, ", "))
	}
	return name, err
}

// query takes a query.
func (w *words) query() (q subQuery, err error) {
	q.Tags = map[string]string{}
	if q.Aggregator, err = w.function("AGGREGATOR"); err != nil {
		return q, err
	}
	if w.peek() == "rate" {
		w.rest, q.Rate = w.rest[1:], true
		if strings.HasPrefix(w.peek(), "counter") {
			if q.RateOptions, err = parseCounter(w.peek()); err != nil {
				return q, err
			}
			w.rest = w.rest[1:]
		}
	}
	if w.peek() == "downsample" {
		w.rest = w.rest[1:]
		if q.Downsample, err = w.downsampling(); err != nil {
			return q, err
		}
	}
	if q.Metric, err = w.next("METRIC"); err != nil {
		return q, err
	}
	for strings.Index(w.peek(), "=") > 0 {
		key, value, _ := strings.Cut(w.peek(), "=")
		if known, twice := q.Tags[key]; value == "" || strings.Contains(value, "=") || twice && known != value {
			return q, fmt.Errorf("%q is not TAG=VALUE, or its tag has two values", w.peek())
		}
		q.Tags[key], w.rest = value, w.rest[1:]
	}
	return q, nil
}

// parseCounter parses counter[,MAX[,RESET]].
func parseCounter(text string) (*rateOptions, error) {
	o := &rateOptions{Counter: true}
	parts := strings.Split(text, ",")
	if parts[0] != "counter" || len(parts) > 3 {
		return nil, fmt.Errorf("%q is not counter,MAX,RESET", text)
	}
	for i, to := range []*int64{&o.CounterMax, &o.ResetValue} {
		if len(parts) <= i+1 || parts[i+1] == "" {
			continue
		}
		v, err := strconv.ParseInt(parts[i+1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not counter,MAX,RESET: %q is not a whole number", text, parts[i+1])
		}
		*to = v
	}
	return o, nil
}

// downsampling takes N and FUNCTION. N without a unit is in milliseconds, as in OpenTSDB's sources.
func (w *words) downsampling() (string, error) {
	interval, err := w.next("the interval after downsample")
	if err != nil {
		return "", err
	}
	if strings.Trim(interval, "0123456789") == "" {
		interval += "ms"
	}
	if _, _, err := request.ParseDuration(strings.TrimSuffix(interval, "c")); err != nil {
		return "", fmt.Errorf("downsample: %w", err)
	}
	function, err := w.function("the function after downsample")
	if err == nil && function == "none" {
		err = fmt.Errorf("downsample: the function none cannot downsample")
	}
	return interval + "-" + function, err
}
