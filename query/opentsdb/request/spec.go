package request

import (
	"strconv"
	"strings"
)

// parseSpec parses the value of the parameter m or tsuid. Colons separate its parts: the aggregator, optional parts, and last
// the metric with filters, or the tsuids.
func parseSpec(param, spec string) (s subQuery, err error) {
	if spec == "" {
		return s, bad("The query string was empty")
	}
	parts := split(spec, ':')
	if n := len(parts); n < 2 || n > partsMax {
		count := "not enough"
		if n > partsMax {
			count = "too many"
		}
		return s, bad("Invalid parameter %s=%s (%s :-separated parts)", param, spec, count)
	}
	s.Aggregator = parts[0]
	last := parts[len(parts)-1]
	if param == "tsuid" {
		s.TSUIDs = strings.Split(last, ",")
	} else if s.Metric, s.parsed, err = parseMetric(last); err != nil {
		return s, err
	}
	for _, part := range parts[1 : len(parts)-1] {
		if err := s.addPart(part); err != nil {
			return s, bad("Invalid parameter %s=%s: %s", param, spec, err)
		}
	}
	return s, nil
}

// partsMax bounds the parts of a specification.
const partsMax = 5

// addPart adds an optional part.
func (s *subQuery) addPart(part string) (err error) {
	lower := strings.ToLower(part)
	switch {
	case strings.HasPrefix(lower, "rate"):
		s.Rate = true
		if strings.Contains(part, "{") {
			s.RateOptions, err = parseRate(part)
		}
	case part != "" && part[0] >= '0' && part[0] <= '9':
		s.Downsample = part
	case lower == "pre-agg":
		s.PreAggregate = true
	case strings.HasPrefix(lower, "rollup_"):
		s.RollupUsage = part
	case strings.HasPrefix(lower, "percentiles"):
		s.Percentiles, err = parsePercentiles(part)
	case strings.HasPrefix(lower, "show-histogram-buckets"):
		s.ShowBuckets = true
	case strings.HasPrefix(lower, "explicit_tags"):
		s.ExplicitTags = true
	default:
		err = bad("the part %q is unknown", part)
	}
	return err
}

// parseRate parses rate{counter,max,reset} and rate{dropcounter,…}.
func parseRate(part string) (*rateOptions, error) {
	open, closed := strings.Index(part, "{"), strings.HasSuffix(part, "}")
	if open != len("rate") || !closed || len(part) < 6 {
		return nil, bad("Invalid rate options specification: %s", part)
	}
	fields := strings.Split(part[open+1:len(part)-1], ",")
	if len(fields) > 3 {
		return nil, bad("Incorrect number of values in rate options specification, must be "+
			"counter[,counter max value,reset value], recieved: %d parts", len(fields))
	}
	o := &rateOptions{Counter: flag(strings.HasSuffix(fields[0], "counter")), DropResets: fields[0] == "dropcounter"}
	if len(fields) > 1 && fields[1] != "" {
		v, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return nil, bad("Max value of counter was not a number, received '%s'", fields[1])
		}
		counterMax := integer(v)
		o.CounterMax = &counterMax
	}
	if len(fields) > 2 && fields[2] != "" {
		v, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			return nil, bad("Reset value of counter was not a number, received '%s'", fields[2])
		}
		o.ResetValue = integer(v)
	}
	return o, nil
}

// parsePercentiles parses percentiles[50,99.9].
func parsePercentiles(part string) (out []float64, err error) {
	open, end := strings.Index(part, "["), strings.Index(part, "]")
	if open < 0 || end < open {
		return nil, bad("Malformated percentile query paramater: %s", part)
	}
	for field := range strings.SplitSeq(part[open+1:end], ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		if err != nil {
			return nil, bad("Malformated percentile query paramater: %s", part)
		}
		out = append(out, v)
	}
	return out, nil
}

// parseMetric parses metric{tag=filter,…}{tag=filter,…}. The filters in the first braces divide series into groups.
func parseMetric(text string) (metric string, filters []Filter, err error) {
	metric, rest, braces := strings.Cut(text, "{")
	if metric == "" {
		return "", nil, bad("Metric cannot be null or empty")
	}
	if !braces {
		return text, nil, nil
	}
	rest, closed := strings.CutSuffix(rest, "}")
	if !closed {
		return "", nil, bad("Missing '}' at the end of: %s", text)
	}
	grouping, plain, _ := strings.Cut(rest, "}{")
	if filters, err = parseTags(filters, "filter", plain, false); err != nil {
		return "", nil, err
	}
	filters, err = parseTags(filters, "tag", grouping, true)
	return metric, filters, err
}

// parseTags adds the filters of tag=filter,….
func parseTags(filters []Filter, what, text string, groupBy bool) ([]Filter, error) {
	if text == "" {
		return filters, nil
	}
	for _, pair := range split(text, ',') {
		key, value, _ := strings.Cut(pair, "=")
		if key == "" || value == "" {
			return nil, bad("When parsing %s '%s': invalid tag: %s", what, pair, pair)
		}
		f, err := TagFilter(key, value)
		if err != nil {
			return nil, bad("When parsing %s '%s': %s", what, pair, err)
		}
		f.GroupBy = groupBy
		filters = append(filters, f)
	}
	return filters, nil
}

// split divides text at a separator that is not between brackets. A backslash escapes the next character.
func split(text string, separator byte) (parts []string) {
	depth, from := 0, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '{', c == '(', c == '[':
			depth++
		case c == '}', c == ')', c == ']':
			depth = max(0, depth-1)
		case c == separator && depth == 0:
			parts, from = append(parts, text[from:i]), i+1
		}
	}
	return append(parts, text[from:])
}
