package probe

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"halite/loadtest/fleet"
)

// TestSuite parses all queries and looks for each word of the language.
func TestSuite(t *testing.T) {
	t.Parallel()
	p := parser.NewParser(parser.Options{
		EnableExperimentalFunctions: true, ExperimentalDurationExpr: true, EnableExtendedRangeSelectors: true,
		EnableBinopFillModifiers: true,
	})
	f, err := fleet.New(fleet.Options{Hosts: 3, Services: 1, StepSeconds: 15})
	require.NoError(t, err)
	words := map[string]bool{}
	names := map[string]bool{}
	for _, q := range Suite() {
		expr := q.Request(f, rand.New(rand.NewPCG(1, 1)), 1e12).Params
		text := expr.Get("query") + expr.Get("match[]")
		_, err := p.ParseExpr(text)
		require.NoError(t, err, "%s: %s", q.Name, text)
		for _, placeholder := range []string{"$V", "$I", "$J"} {
			require.NotContains(t, text, placeholder, q.Name)
		}
		require.False(t, names[q.Class+q.Name], q.Name)
		names[q.Class+q.Name] = true
		for _, word := range regexp.MustCompile(`\w+`).FindAllString(text, -1) {
			words[word] = true
		}
	}
	for name := range parser.Functions {
		if !strings.HasPrefix(name, "histogram_") {
			require.True(t, words[name], name)
		}
	}
	for item, word := range parser.ItemTypeStr {
		if item.IsOperator() && item.IsSetOperator() || item.IsAggregator() || item.IsKeyword() {
			require.True(t, words[word], word)
		}
	}
}
