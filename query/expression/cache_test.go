package expression

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

func testParser() parser.Parser {
	return parser.NewParser(parser.Options{
		ExperimentalDurationExpr: true, EnableExperimentalFunctions: true, EnableExtendedRangeSelectors: true,
		EnableBinopFillModifiers: true,
	})
}

// everyKind lists expressions of all kinds.
func everyKind() []string {
	return []string{
		`1`, `"text"`, `m`, `-m`, `(m)`, `m{b="x",a!~"y.*"} offset 5m @ start()`, `m[5m] @ 1234.5`, `vector(time())`, `pi()`,
		`sum by (z, a) (m)`, `topk without (z, a) (3, m)`, `count_values("v", m)`, `quantile(0.9, m)`, `limit_ratio(0.5, m)`,
		`a * on (z, b) group_left (y, x) c`, `a > bool ignoring (z, b) c`, `a + fill(1) b`, `2 ^ m % 3`, `a unless b or c and d`,
		`max_over_time(rate(m[5m])[1h:1m] offset 1m @ end())`, `rate(m[5m + 1m] offset (2m * 2))`, `rate(m[5m] smoothed)`,
		`label_replace(m, "a", "$1", "b", "(.*)")`, `histogram_quantile(0.9, sum by (le) (rate(m_bucket[5m])))`, `absent(m{a="b"})`,
	}
}

// change changes an expression as the engine and the planner do.
func change(t *testing.T, e parser.Expr, at time.Time) {
	t.Helper()
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			slices.SortFunc(n.LabelMatchers, func(a, b *labels.Matcher) int { return strings.Compare(a.Name, b.Name) })
			n.Name, n.Offset = "changed", time.Hour
		case *parser.AggregateExpr:
			slices.Sort(n.Grouping)
			n.Op = parser.GROUP
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				slices.Sort(n.VectorMatching.MatchingLabels)
				slices.Sort(n.VectorMatching.Include)
				n.VectorMatching.Card = parser.CardManyToMany
			}
		case *parser.NumberLiteral:
			n.Val = 77
		case *parser.StringLiteral:
			n.Val = "changed"
		case *parser.SubqueryExpr:
			n.Step = time.Second
		case *parser.MatrixSelector:
			n.Range = time.Second
		}
		return nil
	})
	_, err := promql.PreprocessExpr(e, at, at.Add(time.Hour), time.Minute)
	require.NoError(t, err)
}

// TestCachingParser changes each copy. The next copy equals the parser's result.
func TestCachingParser(t *testing.T) {
	cached, plain := NewCachingParser(testParser()), testParser()
	for _, text := range everyKind() {
		for i := range 3 {
			want, err := plain.ParseExpr(text)
			require.NoError(t, err, text)
			got, err := cached.ParseExpr(text)
			require.NoError(t, err, text)
			// Matchers hold functions, so they are compared as text.
			require.Equal(t, parser.Tree(want), parser.Tree(got), text)
			require.Equal(t, describe(want), describe(got), text)
			change(t, got, time.Unix(int64(1_700_000_000+i), 0))
		}
		require.True(t, cached.kept.Contains(text), text)
	}
}

// describe prints the fields of all nodes without addresses.
func describe(e parser.Expr) (out []string) {
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case nil:
		case *parser.VectorSelector:
			out = append(out, fmt.Sprint(n.String(), n.LabelMatchers, n.PosRange, n.Offset, n.OriginalOffset, n.Timestamp == nil))
		case *parser.BinaryExpr:
			out = append(out, fmt.Sprint(n.String(), n.PositionRange()))
		default:
			out = append(out, fmt.Sprint(n.String(), n.PositionRange()))
		}
		return nil
	})
	return out
}

// TestCachingParserKeepsLittle: the texts are bounded, and the cache omits texts that may take much memory.
func TestCachingParserKeepsLittle(t *testing.T) {
	p := NewCachingParser(testParser())
	for _, text := range []string{
		`m{a=~"x{1000}"}`, `m{a=~'x{1000}'}`, "m{a=~`x{1000}`}", `m{a="\"",b=~"x{1000}"}`, "# \"\nm{a=~\"x{1000}\"}",
		`m{a=~"\\pL"}`, `m{a!~"\\PL"}`, "m{a=~`\\pL`}", `m{a="` + strings.Repeat("x", textBytesMax) + `"}`,
	} {
		_, err := p.ParseExpr(text)
		require.NoError(t, err)
		require.False(t, p.kept.Contains(text), text)
	}
	_, err := p.ParseExpr(`sum(`)
	require.Error(t, err)
	require.Zero(t, p.kept.Len())
	for i := range 4 * textsBytesMax / 1000 {
		_, err := p.ParseExpr(fmt.Sprintf(`m{a="%d%s"}`, i, strings.Repeat("x", 1000)))
		require.NoError(t, err)
		require.LessOrEqual(t, p.bytes, textsBytesMax)
	}
	require.Greater(t, p.bytes, textsBytesMax-2000)
	bytes := 0
	for _, text := range p.kept.Keys() {
		bytes += len(text)
	}
	require.Equal(t, bytes, p.bytes)
}

// TestCachingParserConcurrently lets goroutines change their copies at the same time; the race detector watches.
func TestCachingParserConcurrently(t *testing.T) {
	p := NewCachingParser(testParser())
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for _, text := range everyKind() {
				e, err := p.ParseExpr(text)
				if err == nil {
					change(t, e, time.Unix(int64(1_700_000_000+g), 0))
				}
			}
		})
	}
	all.Wait()
}
