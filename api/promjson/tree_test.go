package promjson

import (
	"encoding/json"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

// TestFillTree: any value of a fill modifier can be written as JSON.
func TestFillTree(t *testing.T) {
	p := parser.NewParser(parser.Options{EnableBinopFillModifiers: true})
	for expr, want := range map[string]string{
		"a + b":                                  `{"lhs":null,"rhs":null}`,
		"a + fill(1.5) b":                        `{"lhs":1.5,"rhs":1.5}`,
		"a + fill_left(NaN) b":                   `{"lhs":"NaN","rhs":null}`,
		"a + fill_left(-Inf) fill_right(+Inf) b": `{"lhs":"-Inf","rhs":"+Inf"}`,
	} {
		parsed, err := p.ParseExpr(expr)
		require.NoError(t, err)
		text, err := json.Marshal(Tree(parsed))
		require.NoError(t, err, expr)
		var got struct {
			Matching struct {
				FillValues json.RawMessage `json:"fillValues"`
			} `json:"matching"`
		}
		require.NoError(t, json.Unmarshal(text, &got))
		require.JSONEq(t, want, string(got.Matching.FillValues), expr)
	}
}
