package keyschema

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"halite/storage/storagetest/seeds"
)

// newRand returns a source whose seed is printed when the test fails; HALITE_SEED repeats a run.
func newRand(t testing.TB) *rand.Rand { return seeds.Rand(t, 0) }

// awkward holds bytes and characters that easily break escaping or order.
var awkward = []string{
	"#", "=", ",", "%", "~", "!", "<", "+", "$", "-", ".", ":", "}", "|", ">", ";", "/", "0", "9", "A", "a", "z", "_", "&",
	" ",
	"\x00", "\x01", "\x1f", "\x7f", "\x80", "\xff", "\u00e9", "\u4e16", "\U0001f600",
}

// randomText returns up to n awkward pieces.
func randomText(r *rand.Rand, n int) string {
	text := ""
	for range r.IntN(n + 1) {
		text += awkward[r.IntN(len(awkward))]
	}
	return text
}

// randomTags returns up to n tags sorted by name, with names and values from small sets so that series share them.
func randomTags(r *rand.Rand, n int) []Tag {
	var tags []Tag
	for range r.IntN(n + 1) {
		name := []string{"a", "a1", "b", "host", "route", "z-z", randomText(r, 2) + "x"}[r.IntN(7)]
		if _, ok := tagValue(tags, name); ok {
			continue
		}
		value := []string{"7", "70", "7 ", "7.a", "www.example.com:9100", "10.0.0.1", randomText(r, 4) + "v"}[r.IntN(7)]
		tags = append(tags, Tag{name, value})
	}
	slices.SortFunc(tags, func(a, b Tag) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return tags
}

func randomMetric(r *rand.Rand) string {
	return randomTenant(r) + []string{"m", "m1", "m#", "m:a", "up", randomText(r, 3) + "q"}[r.IntN(6)]
}

// randomTenant returns the prefix of a tenant, often none.
func randomTenant(r *rand.Rand) string {
	return TenantPrefix([]string{DefaultTenant, DefaultTenant, "a", "a.b", "a-", "Z"}[r.IntN(6)])
}

// randomRule returns a valid rule for all metrics.
func randomRule(r *rand.Rand) *Rule {
	rule := Rule{Pattern: "*", Salts: []int{1, 2, 16, 100, 101, 1000}[r.IntN(6)]}
	for _, name := range []string{"route", "b", "a"} {
		if r.IntN(3) == 0 {
			rule.Promoted = append(rule.Promoted, name)
		}
	}
	if len(rule.Promoted) > 0 && r.IntN(2) == 0 {
		rule.Basis = BasisPromoted
		rule.SaltTags = r.IntN(len(rule.Promoted) + 1)
	}
	if r.IntN(2) == 0 {
		rule.ReversedDomains = []string{"host"}
	}
	if err := rule.Validate(); err != nil {
		panic(fmt.Sprintf("generator: %v", err))
	}
	return &rule
}

// series is a metric and its tags.
type series struct {
	metric string
	tags   []Tag
}

func randomSeries(r *rand.Rand, n int) []series {
	out := make([]series, n)
	for i := range out {
		out[i] = series{randomMetric(r), randomTags(r, 4)}
	}
	return out
}

func (s series) equal(o series) bool { return s.metric == o.metric && slices.Equal(s.tags, o.tags) }
