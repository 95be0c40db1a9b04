package keyschema

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
)

func mustSchema(t testing.TB, rules ...Rule) *Schema {
	t.Helper()
	s, err := NewSchema(rules)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRuleAtPrefersSpecificThenLatestThenLast(t *testing.T) {
	s := mustSchema(t,
		Rule{Pattern: "http_*", FromHour: 0, Salts: 2},
		Rule{Pattern: "http_*", FromHour: 100, Salts: 3},
		Rule{Pattern: "http_requests_total", FromHour: 50, Salts: 4},
		Rule{Pattern: "*_total", FromHour: 0, Salts: 5},
		Rule{Pattern: "h*_total", FromHour: 70, Salts: 6},
		Rule{Pattern: "*total_", FromHour: 0, Salts: 7},
		Rule{Pattern: "*", FromHour: 200, Salts: 8},
		Rule{Pattern: "????????????????????????????????", FromHour: 0, Salts: 9},
	)
	for _, c := range []struct {
		metric string
		hour   int64
		salts  int
	}{
		{"http_requests", 0, 2}, {"http_requests", 99, 2}, {"http_requests", 100, 3}, {"http_requests", HourMax, 3},
		{"http_requests_total", 0, 5}, // as specific as http_* with one literal byte more
		{"http_requests_total", 49, 5}, {"http_requests_total", 50, 4}, {"http_requests_total", 5000, 4},
		{"hits_total", 69, 5}, {"hits_total", 70, 6},
		{"up", 0, DefaultSalts}, {"up", 199, DefaultSalts}, {"up", 200, 8},
		{"", 0, DefaultSalts}, {strings.Repeat("x", 32), 0, 9}, {strings.Repeat("x", 32), 200, 8},
	} {
		if got := s.RuleAt(c.metric, c.hour); got.Salts != c.salts {
			t.Errorf("RuleAt(%q, %d) = %+v, want %d salts", c.metric, c.hour, got, c.salts)
		}
	}
}

func randomSchema(t testing.TB, r *rand.Rand) *Schema {
	for {
		var rules []Rule
		for range r.IntN(6) {
			rule := *randomRule(r)
			rule.Pattern = []string{"*", "m*", "m", "*p", "u?", "q"}[r.IntN(6)]
			rule.FromHour = r.Int64N(30)
			rules = append(rules, rule)
		}
		if s, err := NewSchema(rules); err == nil {
			return s
		} else if !errors.Is(err, ErrBadRules) {
			t.Fatal(err)
		}
	}
}

func TestGenerationsCoverTheSpan(t *testing.T) {
	r := newRand(t)
	for range 3_000 {
		s, metric := randomSchema(t, r), []string{"m", "m1", "up", "q"}[r.IntN(4)]
		from := r.Int64N(35) - 3
		to := from + r.Int64N(35) - 2
		hour := to // the first hour that no generation has covered yet
		for i, g := range s.Generations(metric, from, to) {
			if g.ToHour != hour || g.FromHour > g.ToHour || g.FromHour < max(from, 0) {
				t.Fatalf("generation %d is %d..%d, next hour is %d of %d..%d", i, g.FromHour, g.ToHour, hour, from, to)
			}
			for ; hour >= g.FromHour; hour-- {
				if s.RuleAt(metric, hour) != g.Rule {
					t.Fatalf("hour %d has another rule than its generation", hour)
				}
			}
		}
		if want := max(from, 0) - 1; hour != want && to >= max(from, 0) {
			t.Fatalf("%d..%d is covered down to %d only", from, to, hour+1)
		}
	}
	if g := mustSchema(t).Generations("m", 0, HourMax+5); len(g) != 1 || g[0].ToHour != HourMax {
		t.Errorf("%+v", g)
	}
}

func TestNewSchemaListsAllFaults(t *testing.T) {
	good := Rule{Pattern: "ok", Salts: 1}
	faulty := []Rule{
		{Pattern: "", Salts: 1}, {Pattern: "a", Salts: 0}, {Pattern: "b", Salts: SaltsMax + 1},
		{Pattern: "c", Salts: 1, FromHour: -1},
		{Pattern: "d", Salts: 1, FromHour: HourMax + 1}, {Pattern: "e", Salts: 1, Basis: BasisPromoted},
		{Pattern: "f", Salts: 1, Basis: 9}, {Pattern: "g", Salts: 1, Promoted: []string{"x", "x"}},
		{Pattern: "h", Salts: 1, Promoted: []string{""}},
		{Pattern: "i", Salts: 1, ReversedDomains: []string{"__name__"}},
		good,
	}
	_, err := NewSchema(append([]Rule{good}, faulty...))
	if !errors.Is(err, ErrBadRules) {
		t.Fatal(err)
	}
	if n := len(strings.Split(err.Error(), "\n")); n != len(faulty) {
		t.Errorf("%d faults listed, want %d:\n%v", n, len(faulty), err)
	}
}

func TestSchemaIsImmutable(t *testing.T) {
	rules := []Rule{{Pattern: "m", Salts: 1, Promoted: []string{"a"}}}
	s := mustSchema(t, rules...)
	rules[0].Promoted[0] = "changed"
	s.Rules()[0].Promoted[0] = "changed"
	want := []Rule{{Pattern: "m", Salts: 1, Promoted: []string{"a"}}, DefaultRule()}
	if !reflect.DeepEqual(s.Rules(), want) {
		t.Errorf("%+v", s.Rules())
	}
	own := Rule{Pattern: "*", Salts: 3}
	if got := mustSchema(t, own).Rules(); !reflect.DeepEqual(got, []Rule{own}) {
		t.Errorf("%+v", got)
	}
}

func TestRuleJSON(t *testing.T) {
	const text = `[{"pattern":"vehicle_position","from_hour":5,"salts":16,"promoted":["route"],"basis":"promoted",` +
		`"reversed_domains":["host"]},{"pattern":"*","from_hour":0,"salts":8,"basis":"tags"}]`
	var rules []Rule
	if err := json.Unmarshal([]byte(text), &rules); err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(mustSchema(t, rules...).Rules()); err != nil || string(got) != text {
		t.Errorf("%s, %v", got, err)
	}
	if err := json.Unmarshal([]byte(`[{"basis":"metric"}]`), &rules); err == nil {
		t.Error("an unknown basis is accepted")
	}
	if _, err := json.Marshal(Rule{Basis: 7}); err == nil {
		t.Error("an unknown basis is written")
	}
}

func TestCheckChange(t *testing.T) {
	a := Rule{Pattern: "m*", FromHour: 10, Salts: 4}
	grown := Rule{Pattern: "m*", FromHour: 100, Salts: 16}
	wider := Rule{Pattern: "m*", FromHour: 10, Salts: 5}
	old := mustSchema(t, a)
	for _, c := range []struct {
		name    string
		next    *Schema
		nowHour int64
		ok      bool
	}{
		{"same", mustSchema(t, a), 50, true},
		{"new generation in time", mustSchema(t, a, grown), 99, true},
		{"new generation too late", mustSchema(t, a, grown), 100, false},
		{"changed rule", mustSchema(t, wider), 50, false},
		{"changed before it holds", mustSchema(t, wider), 9, true},
		{"dropped rule", mustSchema(t), 50, false},
		{"dropped default", mustSchema(t, a, Rule{Pattern: "*", Salts: 3}), 50, false},
	} {
		err := old.CheckChange(c.next, c.nowHour)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrBadRules) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestReplace(t *testing.T) {
	a := Rule{Pattern: "m*", Salts: 4}
	grown := Rule{Pattern: "m*", FromHour: 100, Salts: 16}
	s := mustSchema(t, a)
	before := s.RuleAt("m1", 99)
	if err := s.Replace(mustSchema(t, a, grown), 100); !errors.Is(err, ErrBadRules) {
		t.Errorf("a rule of an hour that has come: %v", err)
	}
	if got := s.RuleAt("m1", 100).Salts; got != 4 {
		t.Errorf("a refused change left %d salts", got)
	}
	if err := s.Replace(mustSchema(t, a, grown), 99); err != nil {
		t.Fatal(err)
	}
	if got, now, later := before.Salts, s.RuleAt("m1", 99).Salts, s.RuleAt("m1", 100).Salts; got != 4 || now != 4 || later != 16 {
		t.Errorf("salts %d, %d, %d", got, now, later)
	}
	if g := s.Generations("m1", 98, 101); len(g) != 2 || g[0].FromHour != 100 || g[1].ToHour != 99 {
		t.Errorf("generations %+v", g)
	}
	if err := s.Replace(mustSchema(t, a), 100); err == nil {
		t.Error("a rule that holds was dropped")
	}
}

// TestReplaceWhileUsed: a concurrent reader sees the rules before or after, never a mixture.
func TestReplaceWhileUsed(t *testing.T) {
	s := mustSchema(t, Rule{Pattern: "m*", Salts: 1})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 500 {
				g := s.Generations("m1", 0, 1000)
				for i := range g {
					if i > 0 && g[i].Rule.Salts != g[i-1].Rule.Salts-1 {
						t.Errorf("generations %+v", g)
					}
				}
			}
		})
	}
	rules := []Rule{{Pattern: "m*", Salts: 1}}
	for i := range 50 {
		rules = append(rules, Rule{Pattern: "m*", FromHour: int64(10 * (i + 1)), Salts: i + 2})
		if err := s.Replace(mustSchema(t, rules...), int64(10*i)); err != nil {
			t.Error(err)
		}
	}
	group.Wait()
}

func TestMatchPattern(t *testing.T) {
	r := newRand(t)
	for range 20_000 {
		var pattern, text string
		for range r.IntN(6) {
			pattern += []string{"*", "?", "a", "b", "."}[r.IntN(5)]
		}
		for range r.IntN(8) {
			text += []string{"a", "b", "."}[r.IntN(3)]
		}
		expr := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
		want := regexp.MustCompile(`^(?s:` + expr + `)$`).MatchString(text)
		if got := matchPattern(pattern, text); got != want {
			t.Fatalf("matchPattern(%q, %q) = %v", pattern, text, got)
		}
	}
}

func TestSaltSpreads(t *testing.T) {
	for _, salts := range []int{2, 16, 100, 1000} {
		rule, counts := Rule{Salts: salts}, make([]int, salts)
		const perSalt = 400
		for i := range perSalt * salts {
			host := strings.Repeat("h", i/10%7) + string(rune(1000+i/70))
			tags := []Tag{{"cpu", string(rune('0' + i%10))}, {"host", host}}
			counts[rule.Salt("node_cpu_seconds_total", tags)]++
		}
		for salt, n := range counts {
			if n < perSalt/2 || n > perSalt*2 {
				t.Errorf("salt %d of %d has %d series, want about %d", salt, salts, n, perSalt)
			}
		}
	}
}

func TestSaltBasis(t *testing.T) {
	r := newRand(t)
	byPromoted := Rule{Salts: 1000, Promoted: []string{"route"}, Basis: BasisPromoted}
	byTags := Rule{Salts: 1000}
	differ := false
	first := byTags.Salt("m", []Tag{{"a", "0"}, {"route", "7"}})
	for range 100 {
		tags := []Tag{{"a", randomText(r, 5)}, {"route", "7"}}
		if byPromoted.Salt("m", tags) != byPromoted.Salt("m", tags[1:]) {
			t.Errorf("%q: the salt depends on more than the promoted tag", tags)
		}
		differ = differ || byTags.Salt("m", tags) != first
	}
	if !differ {
		t.Error("the salt does not depend on all tags")
	}
}

func TestSaltTags(t *testing.T) {
	rule := Rule{Pattern: "*", Salts: 1000, Promoted: []string{"road", "mile"}, Basis: BasisPromoted, SaltTags: 1}
	if err := rule.Validate(); err != nil {
		t.Fatal(err)
	}
	want := rule.Salt("speed", []Tag{{"road", "I-80"}})
	for _, mile := range []string{"001", "002", "417"} {
		if got := rule.Salt("speed", []Tag{{"lane", "2"}, {"mile", mile}, {"road", "I-80"}}); got != want {
			t.Errorf("mile %s lies in salt %d, the road in %d", mile, got, want)
		}
	}
	salt, start, end, ok := rule.PromotedRange("speed", []string{"I-80"})
	if !ok || salt != want {
		t.Fatalf("no range of a road: %d, %v", salt, ok)
	}
	if k := key(&rule, series{"speed", []Tag{{"mile", "002"}, {"road", "I-80"}}}, 9); !inside(k, start, end) {
		t.Errorf("%q is not in [%q, %q)", k, start, end)
	}
	for _, bad := range []Rule{
		{Pattern: "*", Salts: 2, Promoted: []string{"a"}, Basis: BasisPromoted, SaltTags: 2},
		{Pattern: "*", Salts: 2, Promoted: []string{"a"}, Basis: BasisPromoted, SaltTags: -1},
		{Pattern: "*", Salts: 2, Promoted: []string{"a"}, SaltTags: 1},
	} {
		if err := bad.Validate(); !errors.Is(err, ErrBadRules) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	all := Rule{Pattern: "*", Salts: 2, Promoted: []string{"a", "b"}, Basis: BasisPromoted, SaltTags: 2}
	unset := all
	unset.SaltTags = 0
	if first := all; !first.sameLayout(&unset) {
		t.Error("all promoted tags are all of them, however said")
	}
	if first := rule; first.sameLayout(&Rule{Salts: 1000, Promoted: rule.Promoted, Basis: BasisPromoted}) {
		t.Error("other salts are another layout")
	}
}

func TestSchemaIsSafeForConcurrentUse(t *testing.T) {
	s := mustSchema(t, Rule{Pattern: "m*", Salts: 3, FromHour: 5, Promoted: []string{"a"}})
	want := string(s.RuleAt("m1", 9).AppendPrefix(nil, "m1", benchSeries.tags))
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 200 {
				if got := string(s.RuleAt("m1", 9).AppendPrefix(nil, "m1", benchSeries.tags)); got != want {
					t.Errorf("%q", got)
				}
				s.Generations("m1", 0, 100)
			}
		})
	}
	group.Wait()
}
