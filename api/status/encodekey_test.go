package status

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
)

// encoder has a rule that begins later, and one with a promoted domain.
func encoder() *Handler {
	return New(Options{
		Now: func() time.Time { return time.UnixMilli(100*keyschema.HourMs + 5) },
		Keys: Keys{
			Rules: func() []keyschema.Rule {
				return []keyschema.Rule{
					{Pattern: "up", Salts: 4, FromHour: 200},
					{
						Pattern: "http_*", Salts: 8, Promoted: []string{"host", "job"}, Basis: keyschema.BasisPromoted, SaltTags: 1,
						ReversedDomains: []string{"host"},
					},
				}
			},
			ParseSelector: parser.NewParser(parser.Options{}).ParseMetricSelector,
			ParseTime:     func(text string) (time.Time, error) { return time.Parse(time.RFC3339, text) },
		},
	})
}

func encodeKey(t testing.TB, h *Handler, params url.Values) (EncodedKey, error) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/?"+params.Encode(), nil)
	require.NoError(t, r.ParseForm())
	response, err := h.EncodeKey(r)
	if err != nil {
		return EncodedKey{}, err
	}
	return response.(EncodedKey), nil
}

// requireParts demands that the parts make up the key.
func requireParts(t testing.TB, k RowKey) {
	t.Helper()
	text := ""
	for _, p := range k.Parts {
		text += p.Text
	}
	require.Equal(t, k.Key, text)
}

func TestEncodeKey(t *testing.T) {
	h := encoder()
	k, err := encodeKey(t, h, url.Values{"series": {`http_requests{job="a,b",host="www.example.com",empty=""}`}})
	require.NoError(t, err)
	require.Regexp(t, `^http_requests#0[0-7]#host=\+com\.example\.www,job=a!2Cb#\d{7}$`, k.Now.Key)
	require.Equal(t, len(k.Now.Key), k.Now.SizeBytes)
	require.Equal(t, []string{"host"}, k.Now.SaltFrom)
	require.EqualValues(t, 5, k.Now.OffsetMs)
	require.EqualValues(t, 100*keyschema.HourMs, k.Now.HourStartMs)
	requireParts(t, k.Now)
	require.Equal(t, "metric", k.Now.Parts[0].Kind)
	host, job := k.Now.Parts[2], k.Now.Parts[3]
	require.Equal(t, KeyPart{
		Kind: "tag", Text: "host=+com.example.www,", Name: "host", Value: "www.example.com", Promoted: true, Reversed: true,
	}, host)
	require.Equal(t, "a,b", job.Value)
	require.Equal(t, "1970-01-05T04:00:00Z", k.Now.Parts[4].Value)
	require.Nil(t, k.Other)

	// Rules of the request, a later generation, a tenant.
	k, err = encodeKey(t, h, url.Values{
		"series": {"up"}, "time": {"1970-01-20T00:00:01Z"}, "tenant": {"a"}, "rules": {`[{"pattern":"up","salts":1,"basis":"tags"}]`},
	})
	require.NoError(t, err)
	require.Regexp(t, `^&a&up#0[0-3]##\d{7}$`, k.Now.Key)
	require.Regexp(t, `^&a&up#00##\d{7}$`, k.Other.Key)
	require.Empty(t, k.Other.SaltFrom)
	require.Equal(t, []KeyGeneration{
		{FromMs: 200 * keyschema.HourMs, Pattern: "up", Salts: 4}, {ToMs: 200 * keyschema.HourMs, Pattern: "*", Salts: 16},
	}, k.Now.Generations)
	requireParts(t, k.Now)

	long, err := encodeKey(t, h, url.Values{"series": {`up{a="` + strings.Repeat("x", 5000) + `"}`}})
	require.NoError(t, err)
	require.NotEmpty(t, long.Now.TagsHash)
	require.Equal(t, "hash", long.Now.Parts[2].Kind)
	requireParts(t, long.Now)
}

func TestEncodeKeyRefuses(t *testing.T) {
	for text, params := range map[string]url.Values{
		"needs a metric":      {"series": {`{job="a"}`}},
		"parse error":         {"series": {"up{"}},
		"one value, with =":   {"series": {`up{job=~"a"}`}},
		"label \"job\" needs": {"series": {`up{job="a",job="b"}`}},
		"at most 1024":        {"series": {strings.Repeat("x", 1025)}},
		"at most 65536":       {"series": {strings.Repeat("x", 1<<17)}},
		"parameter \"time\"":  {"series": {"up"}, "time": {"soon"}},
		"from 1970":           {"series": {"up"}, "time": {"1960-01-01T00:00:00Z"}},
		"bad name":            {"series": {"up"}, "tenant": {"a b"}},
		"parameter \"rules\"": {"series": {"up"}, "rules": {`[{"pattern":"up","salts":-1}]`}},
		"is unknown":          {"series": {"up"}, "what": {"x"}},
	} {
		_, err := encodeKey(t, encoder(), params)
		require.ErrorIs(t, err, ErrBadRequest, text)
		require.ErrorContains(t, err, text)
	}
	_, err := encodeKey(t, New(Options{}), url.Values{"series": {"up"}})
	require.ErrorIs(t, err, ErrOff)
}

// FuzzEncodeKey: text is refused, or gives a key whose parts make up the key.
func FuzzEncodeKey(f *testing.F) {
	h := encoder()
	f.Add(`up{job="a,b#c",host="www.example.com"}`, "")
	f.Add(`{"<b>&a&",x="$=+"}`, `[{"pattern":"*","salts":3,"promoted":["x"],"basis":"promoted"}]`)
	f.Fuzz(func(t *testing.T, series, rules string) {
		k, err := encodeKey(t, h, url.Values{"series": {series}, "rules": {rules}})
		if err != nil {
			require.ErrorIs(t, err, ErrBadRequest)
			return
		}
		requireParts(t, k.Now)
		if k.Other != nil {
			requireParts(t, *k.Other)
		}
	})
}
