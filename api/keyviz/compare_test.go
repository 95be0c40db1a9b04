package keyviz

import (
	"testing"

	"github.com/stretchr/testify/require"

	"halite/keyschema"
)

// FuzzParseRules: text is an error, or a schema with a rule for every metric.
func FuzzParseRules(f *testing.F) {
	f.Add([]byte(`[{"pattern":"up","salts":4,"promoted":["job"],"basis":"promoted"}]`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, src []byte) {
		schema, err := ParseRules(src)
		if err == nil {
			require.NotNil(t, schema.RuleAt("up", keyschema.HourMax))
		}
	})
}

// FuzzKeys: a key survives a round trip through a parameter, and its labels cause no panic.
func FuzzKeys(f *testing.F) {
	f.Add("&acme&up#07#job=a,instance=+b#9500000")
	f.Add("&acme&")
	f.Add("a#b#c#")
	f.Fuzz(func(t *testing.T, key string) {
		if len(key) > keyschema.KeyBytesMax {
			return
		}
		again, err := decodeKey("key", encodeKey(key))
		require.NoError(t, err)
		require.Equal(t, key, again)
		labelsOf(key)
		keyText(key)
		_, err = decodeKey("key", key)
		if err != nil {
			require.ErrorIs(t, err, ErrBadRequest)
		}
	})
}
