package keyschema

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestCheckTenant(t *testing.T) {
	for _, good := range []string{"a", DefaultTenant, "team-a_1.eu", "9", strings.Repeat("x", TenantBytesMax)} {
		if err := CheckTenant(good); err != nil {
			t.Error(err)
		}
	}
	long := strings.Repeat("x", TenantBytesMax+1)
	for _, bad := range []string{"", ".", "..", "a b", "a&b", "a/b", "a|b", "a#", "ü", "a\x00", long} {
		if err := CheckTenant(bad); !errors.Is(err, ErrBadTenant) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestTenantRows checks that a tenant's range holds the rows of its metrics and no other.
func TestTenantRows(t *testing.T) {
	r := newRand(t)
	for range 20_000 {
		rule, s := randomRule(r), randomSeries(r, 1)[0]
		tenant := []string{"a", "a.b", "a-", "Z", "b"}[r.IntN(5)]
		start, end := TenantRows(tenant)
		k := key(rule, s, r.Int64N(HourMax+1))
		prefix, _ := SplitTenant(s.metric)
		if in := bytes.Compare(start, k) <= 0 && bytes.Compare(k, end) < 0; in != (prefix == TenantPrefix(tenant)) {
			t.Fatalf("key %q in the rows %q … %q of tenant %s: %v", k, start, end, tenant, in)
		}
	}
}

// TestRulesOfTenants: a pattern is for the metrics of all tenants, unless it begins with the mark. Such a pattern is preferred.
func TestRulesOfTenants(t *testing.T) {
	s, err := NewSchema([]Rule{
		{Pattern: "up", Salts: 2}, {Pattern: "&a&*", Salts: 3}, {Pattern: "&a&up", Salts: 4}, {Pattern: "u*", Salts: 5},
	})
	if err != nil {
		t.Fatal(err)
	}
	for metric, want := range map[string]int{
		"up": 2, "&b&up": 2, "&a&up": 4, "&a&x": 3, "ux": 5, "&b&ux": 5, "&a&ux": 3, "x": DefaultSalts, "&b&x": DefaultSalts,
	} {
		if got := s.RuleAt(metric, 0).Salts; got != want {
			t.Errorf("%s has %d salts, want %d", metric, got, want)
		}
	}
}

// FuzzTenant: the name of a tenant is refused, or it round-trips in front of each metric and in each key.
func FuzzTenant(f *testing.F) {
	f.Add("acme", "up")
	f.Add(DefaultTenant, "&a&b")
	f.Add("a&b", "&")
	f.Fuzz(func(t *testing.T, tenant, name string) {
		if CheckTenant(tenant) != nil || name == "" || len(name) > 100 {
			return
		}
		if own, _ := SplitTenant(name); own != "" && tenant == DefaultTenant {
			return // no sender may use such a name
		}
		prefix, got := SplitTenant(TenantPrefix(tenant) + name)
		if TenantOf(prefix) != tenant || got != name {
			t.Fatalf("tenant %q and metric %q come back as %q and %q", tenant, name, TenantOf(prefix), got)
		}
		rule := DefaultRule()
		parsed, err := ParseRowKey(AppendHour(rule.AppendPrefix(nil, prefix+name, nil), 0))
		if err != nil || parsed.Metric != prefix+name {
			t.Fatalf("metric %q comes back as %q: %v", prefix+name, parsed.Metric, err)
		}
	})
}
