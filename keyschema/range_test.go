package keyschema

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func inside(k, start, end []byte) bool {
	return bytes.Compare(start, k) <= 0 && bytes.Compare(k, end) < 0
}

// row is a stored row of a test.
type row struct {
	series
	hour int64
	key  []byte
}

// randomRows returns rows of one rule. It uses few hours, so that some rows lie at the edges of ranges.
func randomRows(r *rand.Rand, rule *Rule, n int) []row {
	rows := make([]row, n)
	for i, s := range randomSeries(r, n) {
		hour := []int64{0, 1, 2, 3, 9, 10, 99, 480_000, HourMax - 1, HourMax}[r.IntN(10)]
		rows[i] = row{s, hour, key(rule, s, hour)}
	}
	return rows
}

func TestSeriesRange(t *testing.T) {
	r := newRand(t)
	for range 300 {
		rule := randomRule(r)
		rows := randomRows(r, rule, 60)
		s := rows[0].series
		from := []int64{-5, 0, 1, 2, 10, 480_000, HourMax}[r.IntN(7)]
		to := []int64{-1, 0, 1, 3, 99, 480_000, HourMax, HourMax + 7}[r.IntN(8)]
		start, end := SeriesRange(rule.AppendPrefix(nil, s.metric, s.tags), from, to)
		for _, row := range rows {
			want := row.equal(s) && from <= row.hour && row.hour <= to
			if inside(row.key, start, end) != want {
				t.Fatalf("%q in [%q, %q): want %v", row.key, start, end, want)
			}
		}
	}
}

func TestMetricRange(t *testing.T) {
	r := newRand(t)
	for range 300 {
		rule := randomRule(r)
		rows := randomRows(r, rule, 60)
		metric, salt := rows[0].metric, rule.Salt(rows[0].metric, rows[0].tags)
		start, end := rule.MetricRange(metric, salt)
		for _, row := range rows {
			want := row.metric == metric && rule.Salt(row.metric, row.tags) == salt
			if inside(row.key, start, end) != want {
				t.Fatalf("%q in [%q, %q): want %v", row.key, start, end, want)
			}
		}
	}
}

func TestPromotedRange(t *testing.T) {
	r := newRand(t)
	ranges := 0
	for range 3_000 {
		rule := randomRule(r)
		if len(rule.Promoted) == 0 {
			continue
		}
		rows := randomRows(r, rule, 60)
		metric, values := rows[0].metric, make([]string, 1+r.IntN(len(rule.Promoted)))
		for i := range values {
			values[i], _ = tagValue(rows[0].tags, rule.Promoted[i])
		}
		salt, start, end, ok := rule.PromotedRange(metric, values)
		if !ok {
			oneSalt := rule.Salts == 1 || rule.Basis == BasisPromoted && len(values) >= len(rule.salted())
			if oneSalt && values[len(values)-1] != "" {
				t.Fatalf("%+v refuses %q", rule, values)
			}
			continue
		}
		ranges++
		for _, row := range rows {
			want := row.metric == metric
			for i, value := range values {
				got, _ := tagValue(row.tags, rule.Promoted[i])
				want = want && got == value
			}
			if inside(row.key, start, end) != want {
				t.Fatalf("%q in [%q, %q): want %v", row.key, start, end, want)
			}
			if want && rule.Salt(row.metric, row.tags) != salt {
				t.Fatalf("%q is not in salt %d", row.key, salt)
			}
		}
	}
	if ranges == 0 {
		t.Error("no range was tested")
	}
}

func TestPromotedRangeHoldsLongKeys(t *testing.T) {
	rule := &Rule{Pattern: "*", Salts: 16, Promoted: []string{"route"}, Basis: BasisPromoted}
	_, start, end, ok := rule.PromotedRange("m", []string{"7"})
	long := series{"m", []Tag{{"fill", string(bytes.Repeat([]byte{'x'}, 5000))}, {"route", "7"}}}
	if k := key(rule, long, 9); !ok || !inside(k, start, end) {
		t.Errorf("%q is not in [%q, %q)", k, start, end)
	}
	other := series{"m", []Tag{{"fill", long.tags[0].Value}, {"route", "70"}}}
	if k := key(rule, other, 9); inside(k, start, end) {
		t.Errorf("%q is in [%q, %q)", k, start, end)
	}
}

func TestPromotedRangeRefuses(t *testing.T) {
	byTags := &Rule{Salts: 16, Promoted: []string{"a", "b"}}
	byPromoted := &Rule{Salts: 16, Promoted: []string{"a", "b"}, Basis: BasisPromoted}
	oneSalt := &Rule{Salts: 1, Promoted: []string{"a", "b"}}
	huge := string(bytes.Repeat([]byte{'x'}, KeyBytesMax))
	for _, c := range []struct {
		name   string
		rule   *Rule
		values []string
	}{
		{"several salts", byTags, []string{"1", "2"}},
		{"not all promoted tags", byPromoted, []string{"1"}},
		{"no values", oneSalt, nil},
		{"more values than promoted tags", oneSalt, []string{"1", "2", "3"}},
		{"last value empty", byPromoted, []string{"1", ""}},
		{"too long", byPromoted, []string{"1", huge}},
	} {
		if _, start, end, ok := c.rule.PromotedRange("m", c.values); ok {
			t.Errorf("%s: [%q, %q)", c.name, start, end)
		}
	}
	if _, start, _, ok := oneSalt.PromotedRange("m", []string{"", "2"}); !ok || string(start) != "m#00#b=2#" {
		t.Errorf("rows without the first tag: %q, %v", start, ok)
	}
}
