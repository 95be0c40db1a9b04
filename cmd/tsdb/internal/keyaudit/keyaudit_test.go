package keyaudit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/alecthomas/kingpin/v2"
	"github.com/stretchr/testify/require"

	"halite/cmd/tsdb/internal/config"
)

// TestKinds: one value is recognised by its form.
func TestKinds(t *testing.T) {
	p := newPatterns()
	for value, want := range map[string]kind{
		"ada@example.com": kindEmail, "Ada <ada@example.com>": kindNone, "a@b": kindNone, "@": kindNone,
		"192.0.2.7": kindIP, "2001:db8::1": kindIP, "10.0.0.1:9100": kindNone, "127.0.0.1": kindNone, "0.0.0.0": kindNone,
		"+49 151 23456789": kindPhone, "0049151234567": kindPhone, "+1": kindNone, "200": kindNone,
		"4111 1111 1111 1111": kindCard, "4111111111111112": kindNone, "0000000000000000": kindNone,
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln": kindToken, "AKIAIOSFODNN7EXAMPLE": kindToken,
		"https://ada:secret@example.com/": kindURL, "https://example.com/?user=7": kindURL, "https://example.com/a": kindNone,
		"0e37df36-f698-11e6-8dd4-cb9ced3df976": kindUUID, "2026-11-23": kindTime, "2026-11-23T10:00:00Z": kindTime,
		"1790000000": kindTime, "1790000000000": kindTime, "9100": kindNone, "": kindNone, "node-7": kindNone,
	} {
		require.Equal(t, want, p.classify(value), value)
	}
}

// TestSequential: many numbers close to each other are a sequence; ports, shards and codes are not.
func TestSequential(t *testing.T) {
	numbers := func(prefix string, n, first, step int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprint(prefix, first+i*step))
		}
		return out
	}
	require.Equal(t, 200, sequential(numbers("", 200, 100_000, 1)))
	require.Equal(t, 200, sequential(append(numbers("order-", 200, 100_000, 3), "none", "")))
	require.Equal(t, 202, sequential(append(numbers("", 200, 100_000, 1), "1", "99999999999")))
	require.Zero(t, sequential(numbers("shard-", 200, 0, 1)))
	require.Zero(t, sequential(numbers("", 20, 100_000, 1)))
	require.Zero(t, sequential(numbers("", 200, 100_000, 1000)))
	require.Zero(t, sequential(nil))
}

// TestHide: a report never has the whole value.
func TestHide(t *testing.T) {
	require.Equal(t, "ada************", hide("ada@example.com"))
	require.Equal(t, "**", hide("ab"))
	require.Equal(t, "日**", hide("日本語"))
}

// labelServer answers look-ups of labels.
func labelServer(t *testing.T, labels map[string][]string) *httptest.Server {
	response := func(w http.ResponseWriter, data any) {
		require.NoError(t, json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": data}))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/labels", func(w http.ResponseWriter, r *http.Request) {
		require.NotEmpty(t, r.FormValue("start"))
		names := []string{"__name__"}
		for name := range labels {
			names = append(names, name)
		}
		response(w, names)
	})
	mux.HandleFunc("GET /api/v1/label/{name}/values", func(w http.ResponseWriter, r *http.Request) {
		name, err := url.PathUnescape(r.PathValue("name"))
		require.NoError(t, err)
		if name == "__name__" {
			response(w, []string{"logins_total"})
			return
		}
		response(w, labels[name])
	})
	mux.HandleFunc("GET /api/v1/status/schema", func(w http.ResponseWriter, r *http.Request) {
		response(w, map[string]any{"rules": []any{map[string]any{"pattern": "logins_*", "promoted": []string{"order"}}}})
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func auditOf(t *testing.T, labels map[string][]string, args ...string) (string, error) {
	app := kingpin.New("tsdb", "")
	commands := AddKeys(app)
	command, err := app.Parse(append([]string{"keys", "audit", "--url", labelServer(t, labels).URL}, args...))
	require.NoError(t, err)
	var out bytes.Buffer
	err = commands[command](t.Context(), &out)
	return out.String(), err
}

// TestAudit: the report names label, kind and metrics, hides the values, and its rules are valid configuration.
func TestAudit(t *testing.T) {
	var orders []string
	for i := range 100 {
		orders = append(orders, fmt.Sprint(500_000+i))
	}
	labels := map[string][]string{
		"user/mail": {"ada@example.com", "other"}, "order": orders, "instance": {"10.0.0.1:9100"}, "session": {"eyJhbGciOi.eyJz.c2ln"},
	}
	text, err := auditOf(t, labels)
	require.ErrorIs(t, err, ErrPersonal)
	require.Contains(t, text, "user/mail: e-mail address in 1 of 2 values, such as ada****")
	require.Contains(t, text, "order: sequential id in 100 of 100 values")
	require.Contains(t, text, `The rule "logins_*" promotes the label`)
	require.NotContains(t, text, "example.com")
	require.NotContains(t, text, "instance:")

	text, err = auditOf(t, labels, "--output=json")
	require.True(t, errors.Is(err, ErrPersonal))
	var r report
	require.NoError(t, json.Unmarshal([]byte(text), &r))
	require.Len(t, r.Findings, 3)
	require.Equal(t, "order", r.Findings[2].Label, "personal data comes first")
	require.Equal(t, "logins_*", r.Findings[2].Promoted)
	for _, f := range r.Findings {
		_, err := config.Parse("rule", []byte(f.Rule))
		require.NoError(t, err, f.Rule)
		require.Equal(t, []string{"logins_total"}, f.Metrics)
	}

	text, err = auditOf(t, map[string][]string{"job": {"node"}})
	require.NoError(t, err)
	require.Contains(t, text, "Nothing found")
	_, err = auditOf(t, nil, "--max-values=0")
	require.ErrorContains(t, err, "--max-values is 0")
}
