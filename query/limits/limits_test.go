package limits

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"halite/storage/principal"
)

func fingerprintOf(t *testing.T, text string) string {
	t.Helper()
	f, err := Fingerprint(parser.NewParser(parser.Options{}), text)
	require.NoError(t, err)
	return f
}

func TestFingerprint(t *testing.T) {
	same := fingerprintOf(t, `sum by (a, b) (rate(x{c="1",d=~"2"}[5m])) / on (e, f) y`)
	require.Regexp(t, "^[0-9a-f]{16}$", same)
	require.Equal(t, same, fingerprintOf(t, `sum  by(b,a)(rate(x{d=~"2", c='1'}[5m])) # why
		/ on(f,e) y`))
	for _, other := range []string{`sum by (a, b) (rate(x{c="2",d=~"2"}[5m])) / on (e, f) y`,
		`sum by (a) (rate(x{c="1",d=~"2"}[5m])) / on (e, f) y`, `x`} {
		require.NotEqual(t, same, fingerprintOf(t, other))
	}
	_, err := Fingerprint(parser.NewParser(parser.Options{}), "sum(")
	require.Error(t, err)
}

// TestRules: the first matching rule decides. The counts of a rule survive a change of rules by its id.
func TestRules(t *testing.T) {
	c := New(nil)
	rules := []Rule{
		{ID: "text", Text: "up", Action: Refuse, Reason: "not this one"},
		{ID: "regexp", Regexp: regexp.MustCompile(`^(?s:count\(.*)$`), Action: SlowLane, Reason: "heavy"},
		{ID: "print", Fingerprint: fingerprintOf(t, "sum(x)"), Action: Refuse, Reason: "a report"},
	}
	c.Set(Options{Rules: rules})
	for _, q := range []struct{ text, lane, refusedBy string }{
		{"up", "", "text"}, {" up\n", "", "text"}, {"up ", "", "text"}, {"up{}", "", ""}, {"count(up)", "regexp", ""},
		{"min(count(up))", "", ""}, {"sum  (x)", "", "print"}, {"sum(y)", "", ""},
	} {
		r, err := c.Match(t.Context(), q.text, func() string { return fingerprintOf(t, q.text) })
		if q.refusedBy != "" {
			var refused *RefusedError
			require.ErrorAs(t, err, &refused, q.text)
			require.Equal(t, q.refusedBy, refused.ID)
			continue
		}
		require.NoError(t, err, q.text)
		require.Equal(t, q.lane != "", r != nil, q.text)
	}
	c.Set(Options{Rules: rules[:2]})
	status := c.Rules()
	require.Len(t, status, 2)
	require.Equal(t, RuleStatus{ID: "text", Query: "up", Reason: "not this one", Source: SourceConfig, Matches: 3}, status[0])
	require.Equal(t, uint64(1), status[1].Matches)
}

func TestSlowLane(t *testing.T) {
	c := New(nil)
	c.Set(Options{Rules: []Rule{{ID: "slow", Text: "up", Action: SlowLane, Reason: "heavy"}}})
	r, err := c.Match(t.Context(), "up", func() string { return "" })
	require.NoError(t, err)
	leave, err := c.Enter(t.Context(), r, time.Minute)
	require.NoError(t, err)
	require.Equal(t, 1, c.Rules()[0].Running)
	_, err = c.Enter(t.Context(), r, time.Millisecond)
	require.ErrorIs(t, err, ErrSlowLane)
	require.ErrorContains(t, err, `"slow" sends this query there: heavy`)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Enter(ended, r, time.Minute)
	require.ErrorIs(t, err, context.Canceled)
	other, err := c.Enter(t.Context(), nil, time.Minute)
	require.NoError(t, err, "other queries do not wait")
	other()
	entered := make(chan error)
	go func() {
		leave, err := c.Enter(context.Background(), r, time.Minute)
		if err == nil {
			leave()
		}
		entered <- err
	}()
	require.Eventually(t, func() bool { return c.Rules()[0].Waiting == 1 }, time.Minute, time.Millisecond)
	leave()
	require.NoError(t, <-entered)
	want := RuleStatus{ID: "slow", Query: "up", Action: SlowLane, Reason: "heavy", Source: SourceConfig, Matches: 1}
	require.Equal(t, want, c.Rules()[0])
	require.Zero(t, c.Status().Running)
}

func TestConcurrency(t *testing.T) {
	for _, dryRun := range []bool{false, true} {
		c := New(nil)
		c.Set(Options{Concurrency: Limit{Max: 2, Warn: 2, DryRun: dryRun}})
		for range 2 {
			_, err := c.Enter(t.Context(), nil, time.Minute)
			require.NoError(t, err)
		}
		_, err := c.Enter(t.Context(), nil, time.Minute)
		if dryRun {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, ErrConcurrency)
		}
		s := c.Status()
		counts := LimitCounts{Warnings: 2, Refused: 1}
		if dryRun {
			counts = LimitCounts{Warnings: 2, DryRuns: 1}
		}
		require.Equal(t, LimitStatus{Max: 2, Warn: 2, DryRun: dryRun, LimitCounts: counts}, s.Concurrency)
	}
}

func TestTimeAndBytes(t *testing.T) {
	c := New(nil)
	require.Equal(t, time.Minute, c.Timeout(t.Context(), time.Minute))
	require.Zero(t, c.BytesMax(t.Context()))
	c.Set(Options{TimeMs: Limit{Max: 1000}, Bytes: Limit{Max: 100, DryRun: true}})
	require.Equal(t, time.Second, c.Timeout(t.Context(), time.Minute))
	require.Equal(t, time.Millisecond, c.Timeout(t.Context(), time.Millisecond))
	require.Zero(t, c.BytesMax(t.Context()), "a dry run ends no query")
	// The request's own timeout and the limit of another tenant end this query.
	c.Ended(t.Context(), Usage{Took: 799 * time.Millisecond, PeakBytes: 79, TimedOut: true, ExceededBytes: 200})
	c.Ended(t.Context(), Usage{Took: 800 * time.Millisecond, PeakBytes: 101})
	c.Ended(t.Context(), Usage{Took: 1001 * time.Millisecond, PeakBytes: 80, TimedOut: true})
	s := c.Status()
	require.Equal(t, LimitStatus{Max: 1000, Warn: 800, LimitCounts: LimitCounts{Warnings: 2, Refused: 1}}, s.TimeMs)
	require.Equal(t, LimitStatus{Max: 100, Warn: 80, DryRun: true, LimitCounts: LimitCounts{Warnings: 2, DryRuns: 1}}, s.Bytes)
	c.Set(Options{Bytes: Limit{Max: 100, Warn: 90}})
	require.Equal(t, int64(100), c.BytesMax(t.Context()))
	c.Ended(t.Context(), Usage{Took: time.Millisecond, PeakBytes: 70, ExceededBytes: 100})
	require.Equal(t, LimitCounts{Warnings: 3, Refused: 1, DryRuns: 1}, c.Status().Bytes.LimitCounts)
}

// as returns the context of a request with a token for tenants.
func as(t *testing.T, token string, tenants ...string) context.Context {
	return principal.With(t.Context(), &principal.Principal{Name: token, Tenants: tenants})
}

// TestRulesOfTokens: a rule with a token applies only to queries with this token.
func TestRulesOfTokens(t *testing.T) {
	c := New(nil)
	c.Set(Options{Rules: []Rule{
		{ID: "text", Text: "up", Token: "grafana", Reason: "x"}, {ID: "all", Token: "script", Reason: "y"},
	}})
	match := func(ctx context.Context, text string) string {
		_, err := c.Match(ctx, text, func() string { return "" })
		var refused *RefusedError
		if errors.As(err, &refused) {
			return refused.ID
		}
		return ""
	}
	require.Equal(t, "text", match(as(t, "grafana"), "up"))
	require.Empty(t, match(as(t, "grafana"), "down"))
	require.Equal(t, "all", match(as(t, "script"), "down"))
	require.Empty(t, match(as(t, "other"), "up"))
	require.Empty(t, match(t.Context(), "up"), "the server itself")
}

// TestLimitsOfTenants: the limits of a tenant and the global limits apply to its queries. Its queries do not count for other
// tenants.
func TestLimitsOfTenants(t *testing.T) {
	c := New(nil)
	c.Set(Options{
		TimeMs: Limit{Max: 1000}, Concurrency: Limit{Max: 5},
		Tenants: map[string]*Options{
			"a": {TimeMs: Limit{Max: 100}, Bytes: Limit{Max: 7}, Concurrency: Limit{Max: 2}}, EachTenant: {Bytes: Limit{Max: 9}},
		},
	})
	require.Equal(t, 100*time.Millisecond, c.Timeout(as(t, "x", "a"), time.Minute))
	require.Equal(t, time.Second, c.Timeout(as(t, "x", "b"), time.Minute))
	require.Equal(t, int64(7), c.BytesMax(as(t, "x", "b", "a")))
	require.Equal(t, int64(9), c.BytesMax(as(t, "x", "b")))
	require.Zero(t, c.BytesMax(t.Context()))
	first, err := c.Enter(as(t, "x", "a"), nil, time.Second)
	require.NoError(t, err)
	second, err := c.Enter(as(t, "x", "b", "a"), nil, time.Second)
	require.NoError(t, err)
	_, err = c.Enter(as(t, "x", "a"), nil, time.Second)
	require.ErrorIs(t, err, ErrConcurrency)
	require.ErrorContains(t, err, "tenant a")
	for range 3 {
		_, err = c.Enter(as(t, "x", "b"), nil, time.Second)
		require.NoError(t, err)
	}
	_, err = c.Enter(as(t, "x", "b"), nil, time.Second)
	require.ErrorIs(t, err, ErrConcurrency)
	first()
	second()
	require.Equal(t, map[string]int64{"b": 3}, c.tenants)
	require.Equal(t, int64(3), c.Status().Running)
}

// TestAddedRules: added rules come first, keep their counts over a reload, and stop matching when they are removed.
func TestAddedRules(t *testing.T) {
	c := New(nil)
	slow := Rule{ID: "added-1", Text: "up", Action: SlowLane, Reason: "x"}
	c.Set(Options{Rules: []Rule{slow}, AddedRulesMax: 2, AddedRuleBytesMax: 40})
	refused := func(text string) string {
		_, err := c.Match(t.Context(), text, func() string { return "0123456789abcdef" })
		if err == nil {
			return ""
		}
		return err.Error()
	}
	for reason, r := range map[string]Rule{
		"it sets 0 of":          {Reason: "x"},
		"it sets 2 of":          {Reason: "x", Text: "a", Fingerprint: "0123456789abcdef"},
		"is not a fingerprint":  {Reason: "x", Fingerprint: "0123456789ABCDEF"},
		"the reason is missing": {Text: "up"},
		"the limit is 40":       {Text: "up", Reason: strings.Repeat("x", 40)},
	} {
		_, err := c.AddRule(r)
		require.ErrorIs(t, err, ErrBadRule)
		require.ErrorContains(t, err, reason)
	}
	require.Empty(t, refused("up"))
	first, err := c.AddRule(Rule{Text: " up ", Reason: "too heavy"})
	require.NoError(t, err)
	require.Equal(t, "added-2", first, "the configuration file has added-1")
	require.Contains(t, refused("up"), `"added-2": too heavy`)
	require.Empty(t, refused("down"))
	second, err := c.AddRule(Rule{Fingerprint: "0123456789abcdef", Reason: "all"})
	require.NoError(t, err)
	require.Contains(t, refused("down"), "all")
	_, err = c.AddRule(Rule{Text: "up", Reason: "x"})
	require.ErrorIs(t, err, ErrTooManyRules)
	c.Set(Options{Rules: []Rule{{ID: "other", Text: "up", Reason: "x"}}})
	var states []string
	for _, r := range c.Rules() {
		states = append(states, fmt.Sprint(r.ID, " ", r.Source, " ", r.Matches))
	}
	require.Equal(t, []string{"added-3 api 1", "added-2 api 1", "other config 0"}, states)
	require.NoError(t, c.RemoveRule(second))
	require.Empty(t, refused("down"))
	require.ErrorIs(t, c.RemoveRule(second), ErrUnknownRule)
	require.ErrorIs(t, c.RemoveRule("other"), ErrUnknownRule, "the configuration file has it")
}
