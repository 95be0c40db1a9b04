package keyschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAgeText(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "24h": 24 * time.Hour, "1d": 24 * time.Hour, "400d": 400 * 24 * time.Hour, "1y": 365 * 24 * time.Hour,
		"1y6w": (365 + 42) * 24 * time.Hour, "1h30m": 90 * time.Minute, "7d12h5ms": 7*24*time.Hour + 12*time.Hour + 5*time.Millisecond,
	} {
		got, err := ParseAge(text)
		if err != nil || time.Duration(got) != want {
			t.Errorf("ParseAge(%q) = %d, %v, want %d", text, got, err, want)
		}
		again, err := ParseAge(got.String())
		if err != nil || again != got {
			t.Errorf("%q is written as %q, which reads as %d, %v", text, got, again, err)
		}
	}
	for _, text := range []string{"", "d", "7", "-7d", "7d7d", "1h1d", "1.5d", "7 d", "300000000y",
		"99999999999999999999d", "0d7", "∞"} {
		if got, err := ParseAge(text); !errors.Is(err, ErrBadAge) {
			t.Errorf("ParseAge(%q) = %d, %v, want ErrBadAge", text, got, err)
		}
	}
}

func FuzzParseAge(f *testing.F) {
	for _, text := range []string{"0", "7d", "1y6w", "ms", "9223372036854775807ms"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		age, err := ParseAge(text)
		if err != nil {
			return
		}
		if again, err := ParseAge(age.String()); err != nil || again != age {
			t.Fatalf("%q is %d, written as %q, which reads as %d, %v", text, age, age, again, err)
		}
	})
}

// rulesOf parses rules as a file has them.
func rulesOf(t *testing.T, text string) ([]Rule, error) {
	t.Helper()
	var rules []Rule
	err := json.Unmarshal([]byte(text), &rules)
	return rules, err
}

func TestRetentionOfRules(t *testing.T) {
	rules, err := rulesOf(t, `[
		{"pattern": "debug_*", "retention": {"raw": "2d", "hours": "7d"}},
		{"pattern": "debug_keep", "retention": {"raw": "90d", "histograms": "3d"}},
		{"pattern": "http_*", "from_hour": 0, "salts": 4, "basis": "tags"},
		{"pattern": "http_*", "from_hour": 99, "salts": 8, "basis": "tags", "retention": {"raw": "0"}},
		{"pattern": "http_*", "from_hour": 500000, "salts": 9, "basis": "tags"}]`)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSchema(rules)
	if err != nil {
		t.Fatal(err)
	}
	day := Age(24 * time.Hour)
	rest := RetentionByTier{30 * day, 60 * day, 0}
	r, err := s.Retention(rest)
	if err != nil {
		t.Fatal(err)
	}
	for metric, want := range map[string]RetentionByTier{
		"debug_x": {2 * day, 7 * day, 0, 2 * day}, "debug_keep": {90 * day, 90 * day, 0, 3 * day},
		"debug_keeper": {2 * day, 7 * day, 0, 2 * day}, "http_x": {0, 0, 0, 0}, "other": {30 * day, 60 * day, 0, 30 * day},
	} {
		if got := r.ForMetric(metric); got != want {
			t.Errorf("ages of %s are %v, want %v", metric, got, want)
		}
	}
	if got, want := r.Longest(), (RetentionByTier{0, 0, 0}); got != want {
		t.Errorf("longest ages are %v, want %v", got, want)
	}
	if got, want := r.Shortest(), (RetentionByTier{2 * day, 7 * day, 0, 2 * day}); got != want {
		t.Errorf("shortest ages are %v, want %v", got, want)
	}
	// Rules about retention do not lay out keys.
	if rule := s.RuleAt("debug_x", 5); rule.Salts != DefaultSalts {
		t.Errorf("debug_x is laid out by %+v", rule)
	}
	text, err := json.Marshal(s.Rules())
	if err != nil {
		t.Fatal(err)
	}
	again, err := rulesOf(t, string(text))
	if err != nil || fmt.Sprint(len(again)) != "6" || *again[1].Retention.Raw != 90*day {
		t.Errorf("written as %s, which reads as %+v, %v", text, again, err)
	}
}

func TestRetentionMayChange(t *testing.T) {
	schema := func(text string) *Schema {
		rules, err := rulesOf(t, text)
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewSchema(rules)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	plain := schema(`[{"pattern": "a_*", "salts": 4, "basis": "tags"}]`)
	aged := schema(`[{"pattern": "a_*", "salts": 4, "basis": "tags", "retention": {"raw": "3d"}}]`)
	apart := schema(`[{"pattern": "a_*", "salts": 4, "basis": "tags"}, {"pattern": "a_*", "retention": {"days": "1y"}}]`)
	for _, pair := range [][2]*Schema{{plain, aged}, {aged, plain}, {plain, apart}, {apart, aged}} {
		if err := pair[0].CheckChange(pair[1], 500_000); err != nil {
			t.Error(err)
		}
	}
	if err := plain.CheckChange(schema(`[{"pattern": "a_*", "retention": {"raw": "3d"}}]`), 500_000); err == nil {
		t.Error("a rule about keys was replaced by one about retention")
	}
}

func TestRetentionFaultsNameRuleAndField(t *testing.T) {
	day := Age(24 * time.Hour)
	for text, want := range map[string][]string{
		`[{"pattern": "a", "retention": {"raw": "12h"}}]`:                     {`"a"`, "retention.raw is 12h", "at least 1d"},
		`[{"pattern": "a", "retention": {}}]`:                                 {`"a"`, "needs at least one of"},
		`[{"pattern": "a", "retention": {"hours": "7d"}}]`:                    {`"a"`, "hours is 1w", "raw, which is 30d"},
		`[{"pattern": "a", "retention": {"raw": "9d", "hours": "8d"}}]`:       {`"a"`, "hours is 8d", "raw, which is 9d"},
		`[{"pattern": "a", "retention": {"days": "9d"}}]`:                     {`"a"`, "days is 9d", "hours, which is 60d"},
		`[{"pattern": "a", "retention": {"raw": "0", "hours": "60d"}}]`:       {`"a"`, "retention.hours is 60d", "forever"},
		`[{"pattern": "a", "retention": {"histograms": "12h"}}]`:              {`"a"`, "retention.histograms is 12h", "at least 1d"},
		`[{"pattern": "a", "retention": {"histograms": "31d"}}]`:              {`"a"`, "histograms is 31d", "raw, which is 30d"},
		`[{"pattern": "a", "retention": {"raw": "9d", "histograms": "10d"}}]`: {`"a"`, "histograms is 10d", "at most as long"},
		`[{"pattern": "a", "from_hour": 7, "retention": {"raw": "7d"}}]`:      {`"a"`, "from_hour is 7"},
		`[{"pattern": "a", "basis": "promoted", "retention": {"raw": "7d"}}]`: {`"a"`, "salts 0"},
		`[{"pattern": "a", "salts": 3}, {"pattern": "b"}]`:                    {`"b"`, "salts 0"},
		`[{"pattern": "a", "salts": 3, "retention": {"raw": "7d"}}, {"pattern": "a", "retention": {"raw": "8d"}}]`: {
			`"a"`, "have a retention"},
		`[{"pattern": "a", "retention": {"raw": "7 days"}}]`: {`"7 days"`},
		`[{"pattern": "a", "retention": {"raw": 7}}]`:        {"retention.raw"},
	} {
		rules, err := rulesOf(t, text)
		var s *Schema
		if err == nil {
			s, err = NewSchema(rules)
		}
		if err == nil {
			_, err = s.Retention(RetentionByTier{30 * day, 60 * day, 0})
		}
		if err == nil {
			t.Errorf("%s was accepted", text)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: message %q does not say %q", text, err, part)
			}
		}
	}
}

// TestKeyRangeHoldsMetrics checks two ranges. The range of a pattern holds all metrics that the pattern matches. The range
// of a metric holds no other metric.
func TestKeyRangeHoldsMetrics(t *testing.T) {
	r := newRand(t)
	rule := DefaultRule()
	for range 20_000 {
		metric, other := randomTenant(r)+randomText(r, 5)+"m", randomTenant(r)+randomText(r, 5)+"m"
		pattern := PatternRetention{Pattern: []string{"*", "?*", metric, metric[:r.IntN(len(metric))] + "*", "*" + metric}[r.IntN(5)]}
		key := AppendHour(rule.AppendPrefix(nil, metric, randomTags(r, 3)), int64(r.IntN(HourMax)))
		in := func(start, end []byte) bool {
			return bytes.Compare(start, key) <= 0 && (len(end) == 0 || bytes.Compare(key, end) < 0)
		}
		ranges, inside := pattern.KeyRanges(), 0
		for _, one := range ranges {
			if in(one.Start, one.End) {
				inside++
				if one.Exact && !matchMetric(pattern.Pattern, metric) {
					t.Fatalf("pattern %q does not match metric %q in its range %q … %q", pattern.Pattern, metric, one.Start, one.End)
				}
			}
		}
		if inside > 1 || matchMetric(pattern.Pattern, metric) && inside == 0 {
			t.Fatalf("key %q of metric %q lies in %d ranges of %s of pattern %q", key, metric, inside, fmt.Sprint(ranges), pattern.Pattern)
		}
		if start, end := MetricRows(other); in(start, end) != (metric == other) {
			t.Fatalf("key %q of metric %q and rows %q … %q of metric %q", key, metric, start, end, other)
		}
	}
}

// TestRetentionAgainstModel compares with the definition: the most specific matching rule decides, and among equally
// specific ones the last one.
func TestRetentionAgainstModel(t *testing.T) {
	r := newRand(t)
	patterns := []string{"*", "a*", "a_*", "*_b", "a_b", "a_?", "?_b", "c"}
	for range 500 {
		var rules []Rule
		for _, i := range r.Perm(len(patterns))[:r.IntN(len(patterns))] {
			age := AgeMin * Age(1+r.IntN(9))
			rules = append(rules, Rule{Pattern: patterns[i], Retention: &RuleRetention{Raw: &age}})
		}
		s, err := NewSchema(rules)
		if err != nil {
			t.Fatal(err)
		}
		rest := RetentionByTier{AgeMin * 99, 0, 0}
		retention, err := s.Retention(rest)
		if err != nil {
			t.Fatal(err)
		}
		for _, metric := range []string{"a", "a_b", "a_c", "x_b", "c", "z"} {
			want, best := rest[Raw], -1
			for i := range rules {
				if matchMetric(rules[i].Pattern, metric) && specificity(rules[i].Pattern) >= best {
					want, best = *rules[i].Retention.Raw, specificity(rules[i].Pattern)
				}
			}
			if got := retention.ForMetric(metric)[Raw]; got != want {
				t.Fatalf("rules %v: age of %s is %v, want %v", slices.Collect(func(yield func(string) bool) {
					for _, r := range rules {
						_ = yield(r.Pattern + " " + r.Retention.Raw.String())
					}
				}), metric, got, want)
			}
		}
	}
}

// TestRetentionOfHistograms sets the ages of native histograms by the server and by rules.
func TestRetentionOfHistograms(t *testing.T) {
	day := Age(24 * time.Hour)
	for _, c := range []struct {
		raw, rest int // days of the server; 0 is forever, or as long as raw
		rule      string
		want      int
	}{
		{30, 0, `{"days": "0"}`, 30}, {0, 0, `{"days": "0"}`, 0}, {30, 7, `{"days": "0"}`, 7},
		{30, 0, `{"raw": "40d"}`, 40}, {30, 30, `{"raw": "40d"}`, 40}, {30, 7, `{"raw": "40d"}`, 7}, {30, 7, `{"raw": "5d"}`, 5},
		{30, 7, `{"raw": "0"}`, 7}, {30, 0, `{"raw": "0"}`, 0}, {0, 0, `{"raw": "5d"}`, 5},
		{30, 7, `{"histograms": "9d"}`, 9}, {30, 7, `{"histograms": "0"}`, 30}, {0, 0, `{"histograms": "9d"}`, 9},
		{30, 7, `{"raw": "20d", "histograms": "0"}`, 20}, {30, 0, `{"raw": "20d", "histograms": "20d"}`, 20},
	} {
		rules, err := rulesOf(t, `[{"pattern": "a", "retention": `+c.rule+`}]`)
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewSchema(rules)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Retention(RetentionByTier{Age(c.raw) * day, 0, 0, Age(c.rest) * day})
		if err != nil {
			t.Fatal(c, err)
		}
		if got := r.ForMetric("a")[NativeHistograms]; got != Age(c.want)*day {
			t.Errorf("%+v: histograms are kept for %v", c, got)
		}
		if other := r.ForMetric("b"); other[NativeHistograms].Outlives(other[Raw]) {
			t.Errorf("%+v: histograms without a rule outlive samples: %v", c, other)
		}
	}
}
