package keyschema

// SeriesRange returns the range [start, end) of the rows of one series from fromHour to toHour, both included. prefix comes
// from [Rule.AppendPrefix]. SeriesRange ignores hours outside 0..HourMax; if no hour is left, the range is empty. No other
// key lies in the range.
func SeriesRange(prefix []byte, fromHour, toHour int64) (start, end []byte) {
	fromHour, toHour = max(fromHour, 0), min(toHour, HourMax)
	bound := func() []byte { return append(make([]byte, 0, len(prefix)+HourDigits), prefix...) }
	if fromHour > toHour {
		start = AppendHour(bound(), 0)
		return start, start
	}
	start = AppendHour(bound(), toHour)
	if fromHour > 0 {
		return start, AppendHour(bound(), fromHour-1)
	}
	end = AppendHour(bound(), 0)
	end[len(end)-1]++ // ':' follows '9'
	return start, end
}

// MetricRange returns the range [start, end) of all rows of a metric in one salt of this rule. No other key lies in
// the range.
func (r *Rule) MetricRange(metric string, salt int) (start, end []byte) {
	start = r.appendSalted(nil, metric, salt)
	end = append([]byte(nil), start...)
	end[len(end)-1] = pastField
	return start, end
}

// PromotedRange returns the salt and the range [start, end) of all rows of a metric whose first len(values) promoted
// tags have these values. An empty value selects rows without the tag. No other key lies in the range.
//
// ok is false if no single range holds exactly these rows, and the caller then reads the ranges of the metric:
//   - the rows have several salts (BasisTags, or values lacks a promoted tag that decides the salt),
//   - the last value is empty,
//   - there are more values than promoted tags, or
//   - the values are too long for a key.
func (r *Rule) PromotedRange(metric string, values []string) (salt int, start, end []byte, ok bool) {
	n := len(values)
	if n == 0 || n > len(r.Promoted) || values[n-1] == "" {
		return 0, nil, nil, false
	}
	if r.Salts > 1 && (r.Basis != BasisPromoted || n < len(r.salted())) {
		return 0, nil, nil, false
	}
	h := saltHash(saltSeed).field(metric)
	for i, name := range r.salted()[:min(n, len(r.salted()))] {
		h = h.field(name).field(values[i])
	}
	salt = h.modulo(r.Salts)
	start = r.appendSalted(nil, metric, salt)
	body := len(start)
	for i, value := range values {
		if value == "" {
			continue
		}
		if len(start) > body {
			start = append(start, tagSep)
		}
		start = r.AppendTag(start, &Tag{r.Promoted[i], value})
	}
	if len(start) > clearBytesMax {
		return 0, nil, nil, false
	}
	end = append(append(make([]byte, 0, len(start)+1), start...), pastTag)
	return salt, append(start, fieldSep), end, true
}
