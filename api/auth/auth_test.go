package auth

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"halite/keyschema"
	"halite/storage/principal"
)

// testWait bounds the wait for another goroutine. testTick is the time between two checks.
const (
	testWait = time.Minute
	testTick = time.Millisecond
)

// hashOf returns the hash of a password with bcrypt's lowest cost.
func hashOf(t testing.TB, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	require.NoError(t, err)
	return string(hash)
}

func sum(token string) string {
	hash := sha256.Sum256([]byte(token))
	return hex.EncodeToString(hash[:])
}

// write writes a file of a test's directory and returns its path.
func write(t testing.TB, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// authenticate sends the header Authorization.
func authenticate(a *Authenticator, header string) (*principal.Principal, error) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if header != "" {
		r.Header.Set("Authorization", header)
	}
	return a.Identify(r)
}

func basic(user, password string) string {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.SetBasicAuth(user, password)
	return r.Header.Get("Authorization")
}

func TestIdentify(t *testing.T) {
	dir := t.TempDir()
	a, err := New(Options{
		WebConfigFile: write(t, dir, "web.yml", fmt.Sprintf("basic_auth_users: {root: %q, viewer: %q}\n",
			hashOf(t, "pw"), hashOf(t, "see"))),
		AccessFile: write(t, dir, "access.yml", "users: [{name: viewer, scopes: [read], match: '{team=\"a\"}'}]\n"+
			"tokens: [{name: sender, scopes: [write, admin], sha256: "+sum("secret")+"}]\n"),
	})
	require.NoError(t, err)
	require.False(t, a.Open())
	require.Nil(t, a.TLS())
	for _, c := range []struct {
		header, name, reason string
		scopes               principal.Scopes
	}{
		{basic("root", "pw"), "root", "", principal.Every},
		{basic("root", "pw"), "root", "", principal.Every}, // from the cache
		{basic("viewer", "see"), "viewer", "", principal.Read},
		{"Bearer secret", "sender", "", principal.Write | principal.Admin},
		{"Token secret", "sender", "", principal.Write | principal.Admin},
		{"bearer  secret ", "sender", "", principal.Write | principal.Admin},
		{"", "", ReasonNoCredentials, 0},
		{basic("root", "see"), "", ReasonBadCredentials, 0},
		{basic("root", "see"), "", ReasonBadCredentials, 0},
		{basic("viewer", "pw"), "", ReasonBadCredentials, 0},
		{basic("nobody", "pw"), "", ReasonBadCredentials, 0},
		{basic("nobody", "see"), "", ReasonBadCredentials, 0},
		{basic("", ""), "", ReasonBadCredentials, 0},
		{"Basic", "", ReasonBadCredentials, 0},
		{"Basic !", "", ReasonBadCredentials, 0},
		{"Bearer", "", ReasonBadCredentials, 0},
		{"Bearer " + sum("secret"), "", ReasonBadCredentials, 0},
		{"secret", "", ReasonBadCredentials, 0},
		{"Digest secret", "", ReasonBadCredentials, 0},
	} {
		p, err := authenticate(a, c.header)
		if c.reason == "" {
			require.NoError(t, err, c.header)
			require.Equal(t, c.name, p.Name)
			require.Equal(t, c.scopes, p.Scopes)
			require.Equal(t, c.name == "viewer", p.Restricted())
			continue
		}
		refusal := new(Refusal)
		require.ErrorAs(t, err, &refusal, c.header)
		require.Equal(t, c.reason, refusal.Reason, c.header)
		require.Equal(t, http.StatusUnauthorized, refusal.Status())
	}
}

// TestExposure: nobody has to log in without files, so only a loopback address is safe.
func TestExposure(t *testing.T) {
	open, err := New(Options{})
	require.NoError(t, err)
	p, err := authenticate(open, "Bearer anything")
	require.NoError(t, err)
	require.Equal(t, principal.Every, p.Scopes)
	closed, err := New(Options{AccessFile: write(t, t.TempDir(), "access.yml",
		"tokens: [{name: a, scopes: [read], sha256: "+sum("x")+"}]")})
	require.NoError(t, err)
	for ip, loopback := range map[string]bool{"127.0.0.1": true, "::1": true, "0.0.0.0": false, "::": false, "10.0.0.1": false} {
		addr := &net.TCPAddr{IP: net.ParseIP(ip), Port: 1}
		require.NoError(t, closed.CheckExposure(addr))
		if loopback {
			require.NoError(t, open.CheckExposure(addr))
		} else {
			require.ErrorIs(t, open.CheckExposure(addr), ErrExposed)
		}
	}
}

// TestBadFiles: an error names the file, the line and the field, and holds no possible secret.
func TestBadFiles(t *testing.T) {
	secret := "halite_veryverysecret"
	for _, c := range []struct{ access, want string }{
		{"tokens:\n  - name: a\n    scopes: [read]\n    sha256: " + secret, "line 4: tokens[0].sha256: must be the 64 hexadecimal"},
		{"tokens:\n  - name: a\n    scopes: [read]", "line 2: tokens[0].sha256: must be"},
		{"tokens:\n  - scopes: [read]", "line 2: tokens[0].name: is missing"},
		{"tokens:\n  - name: a\n    scopes: [reed]", `line 3: tokens[0].scopes: scope "reed" is unknown; known are read, write, admin`},
		{"tokens:\n  - name: a\n    scopes: [read, read]", `line 3: tokens[0].scopes: scope "read" is given twice`},
		{"tokens:\n  -\n  - {name: a, scopes: [read]}", "line 2: tokens[0]: the entry is empty"},
		{"tokens:\n  - name: a", "line 2: tokens[0].scopes: there is no scope"},
		{"tokens:\n  - {name: a, scopes: [read], match: 'x{'}", "line 2: tokens[0].match: must be a selector"},
		{"tokens:\n  - {name: a, scopes: [write], match: x}", "line 2: tokens[0].match: restricts reads"},
		{"tokens: [{name: a, scopes: [read], sha256: " + sum("x") + "}, {name: b, scopes: [read], sha256: " + sum("x") + "}]",
			"line 1: tokens[1].sha256: another token has the same hash"},
		{"users: [{name: a, scopes: [read]}, {name: a, scopes: [read]}]", `users[1].name: user "a" is listed twice`},
		{"users: [{name: a, scopes: [read]}]", `user "a" has rights, but no password`},
		{"users: []", "there is neither a token nor a user"},
		{"tokenz: []", "line 1: field tokenz not found"},
		{"tokens: [{name: a, sha: " + secret + "}]", "line 1: field sha not found"},
		{"tokens: " + secret, "line 1: cannot unmarshal !!str"},
		{"tokens:\n  - " + secret, "line 2: cannot unmarshal !!str"},
		{"a: 1\na: 2", "already defined at line 1"},
		{"tokens: []\n---\ntokens: []", "more than one YAML document"},
		{"\ttokens", "cannot start any token"},
		{strings.Repeat("#", 2<<20), "has more than 1048576 bytes"},
	} {
		path := write(t, t.TempDir(), "access.yml", c.access)
		_, err := New(Options{AccessFile: path})
		require.ErrorContains(t, err, c.want, c.access)
		require.ErrorContains(t, err, "--web.access-file: ")
		require.NotContains(t, err.Error(), secret)
		require.NotContains(t, err.Error(), "auth.")
	}
	for config, want := range map[string]string{
		"basic_auth_users: {a: plaintext}":         `basic_auth_users: "a": the password must be a bcrypt hash`,
		"basic_auth_users: plaintext":              "line 1: cannot unmarshal",
		"tls_server_config: {cert_file: nowhere}":  "key",
		"http_server_config: {headers: {X-A: b}}":  `HTTP header "X-A" can not be configured`,
		"rate_limit: {burst: 1, interval: 1s}":     "rate_limit is not supported",
		"basic_auth_user: {a: b}":                  "line 1: field basic_auth_user not found",
		"http_server_config: {http2: plaintext}":   "line 1: cannot unmarshal",
		"tls_server_config: {min_version: TLS99x}": "TLS99x",
	} {
		path := write(t, t.TempDir(), "web.yml", config)
		_, err := New(Options{WebConfigFile: path})
		require.ErrorContains(t, err, want, config)
		require.ErrorContains(t, err, "--web.config.file: "+path)
		require.NotContains(t, err.Error(), "plaintext")
	}
	_, err := New(Options{AccessFile: filepath.Join(t.TempDir(), "nowhere")})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = New(Options{CheckInterval: -1, PasswordChecksMax: -1})
	require.ErrorContains(t, err, "option CheckInterval")
	require.ErrorContains(t, err, "option PasswordChecksMax")
}

// TestReload: a good file replaces the previous one, and a bad one does not.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	token := func(secret string) string { return "tokens: [{name: a, scopes: [read], sha256: " + sum(secret) + "}]" }
	path := write(t, dir, "access.yml", token("one"))
	registry := prometheus.NewRegistry()
	var log bytes.Buffer
	a, err := New(Options{AccessFile: path, Registerer: registry, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	works := func(secret string) bool { _, err := authenticate(a, "Bearer "+secret); return err == nil }
	require.True(t, works("one"))

	write(t, dir, "access.yml", token("two"))
	require.NoError(t, a.Reload())
	require.False(t, works("one"))
	require.True(t, works("two"))

	for _, bad := range []string{"tokens: [", "", "{}"} {
		write(t, dir, "access.yml", bad)
		require.Error(t, a.Reload(), bad)
		require.True(t, works("two"))
	}
	require.NoError(t, os.Remove(path))
	a.reloadChanged()
	a.reloadChanged()
	require.True(t, works("two"))
	require.Equal(t, 1, strings.Count(log.String(), "cannot reload"), log.String())
	ok, _ := a.Last()
	require.False(t, ok)
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP tsdb_web_auth_last_reload_successful Whether the last reload of users, tokens and certificates succeeded.
# TYPE tsdb_web_auth_last_reload_successful gauge
tsdb_web_auth_last_reload_successful 0
`), "tsdb_web_auth_last_reload_successful"))

	write(t, dir, "access.yml", token("three"))
	a.reloadChanged()
	require.True(t, works("three"))
	ok, _ = a.Last()
	require.True(t, ok)
	before := a.current.Load()
	a.reloadChanged()
	require.Same(t, before, a.current.Load())
}

// TestEmptyFile: a reload refuses a file that is empty for a moment. Otherwise users would have all rights meanwhile.
func TestEmptyFile(t *testing.T) {
	dir := t.TempDir()
	web := write(t, dir, "web.yml", fmt.Sprintf("basic_auth_users: {viewer: %q}", hashOf(t, "see")))
	access := write(t, dir, "access.yml", "users: [{name: viewer, scopes: [read]}]\n"+
		"tokens: [{name: a, scopes: [read], sha256: "+sum("secret")+"}]")
	a, err := New(Options{WebConfigFile: web, AccessFile: access})
	require.NoError(t, err)
	for _, path := range []string{access, web} {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(path, 0))
		require.Error(t, a.Reload())
		p, err := authenticate(a, basic("viewer", "see"))
		require.NoError(t, err)
		require.Equal(t, principal.Read, p.Scopes)
		_, err = authenticate(a, "Bearer secret")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, content, 0o600))
	}
	require.NoError(t, a.Reload())
}

// TestRepairedCertificate: after a reload that failed because of a certificate, the repaired certificate is found.
func TestRepairedCertificate(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "web.yml", webWithTLS(t, dir, "one"))
	a, err := New(Options{WebConfigFile: path})
	require.NoError(t, err)
	config := webWithTLS(t, dir, "two")
	good, err := os.ReadFile(filepath.Join(dir, "two.pem"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, "two.pem")))
	write(t, dir, "web.yml", config)
	require.Error(t, a.Reload())
	write(t, dir, "two.pem", string(good))
	a.reloadChanged()
	ok, _ := a.Last()
	require.True(t, ok)
	require.Equal(t, "two", a.current.Load().web.tls.Certificates[0].Leaf.Subject.CommonName)
}

// webWithTLS writes a certificate and its key. It returns a web configuration with them.
func webWithTLS(t *testing.T, dir, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	write(t, dir, name+".pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, dir, name+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	return fmt.Sprintf("tls_server_config: {cert_file: %s.pem, key_file: %s.key}", name, name)
}

// TestPasswordExchange: a new password replaces the previous one.
func TestPasswordExchange(t *testing.T) {
	dir := t.TempDir()
	config := func(password string) string { return fmt.Sprintf("basic_auth_users: {u: %q}", hashOf(t, password)) }
	a, err := New(Options{WebConfigFile: write(t, dir, "web.yml", config("one"))})
	require.NoError(t, err)
	_, err = authenticate(a, basic("u", "one"))
	require.NoError(t, err)
	_, err = authenticate(a, basic("u", "two"))
	require.Error(t, err)
	write(t, dir, "web.yml", config("two"))
	a.reloadChanged()
	_, err = authenticate(a, basic("u", "one"))
	require.Error(t, err)
	_, err = authenticate(a, basic("u", "two"))
	require.NoError(t, err)
	write(t, dir, "web.yml", "basic_auth_users: {}")
	require.ErrorContains(t, a.Reload(), "restart")
	_, err = authenticate(a, basic("u", "two"))
	require.NoError(t, err)
}

// TestPasswordQueue: a password is checked once, and a bounded number of requests waits for checks.
func TestPasswordQueue(t *testing.T) {
	hash := hashOf(t, "pw")
	p := newPasswords(&Options{PasswordChecksMax: 1, PasswordQueueMax: 1})
	p.slots <- struct{}{}
	var wait sync.WaitGroup
	wait.Go(func() {
		ok, busy := p.check(t.Context(), "u", "pw", []byte(hash))
		require.True(t, ok)
		require.False(t, busy)
	})
	require.Eventually(t, func() bool { return p.queue.Load() == 1 }, testWait, testTick)
	wait.Go(func() {
		ok, _ := p.check(t.Context(), "u", "other", []byte(hash))
		require.False(t, ok)
	})
	require.Eventually(t, func() bool { return p.queue.Load() == 2 }, testWait, testTick)
	_, busy := p.check(t.Context(), "u", "third", []byte(hash))
	require.True(t, busy)
	<-p.slots
	wait.Wait()
	p.slots <- struct{}{} // no check can run now
	ok, busy := p.check(t.Context(), "u", "pw", []byte(hash))
	require.True(t, ok)
	require.False(t, busy)
	ok, busy = p.check(t.Context(), "u", "other", []byte(hash))
	require.False(t, ok)
	require.False(t, busy)
}

// TestSharedCheck: more requests than the queue holds wait for the check of one password.
func TestSharedCheck(t *testing.T) {
	hash := hashOf(t, "pw")
	p := newPasswords(&Options{PasswordChecksMax: 1, PasswordQueueMax: 0})
	p.slots <- struct{}{}
	var wait sync.WaitGroup
	var refused atomic.Int64
	for range 10 {
		wait.Go(func() {
			if ok, _ := p.check(t.Context(), "u", "pw", []byte(hash)); !ok {
				refused.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool { return p.queue.Load() == 1 }, testWait, testTick)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ok, busy := p.check(ended, "u", "pw", []byte(hash))
	require.False(t, ok)
	require.True(t, busy)
	<-p.slots
	wait.Wait()
	require.Zero(t, refused.Load())
	require.Empty(t, p.checks)
}

func TestNewToken(t *testing.T) {
	token, entry, err := NewToken("grafana: x", []string{"read", "admin"}, `{team="a"}`)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(token, "halite_"))
	require.NotContains(t, entry, token)
	a, err := New(Options{AccessFile: write(t, t.TempDir(), "access.yml", entry)})
	require.NoError(t, err, entry)
	p, err := authenticate(a, "Bearer "+token)
	require.NoError(t, err)
	require.Equal(t, "grafana: x", p.Name)
	require.Equal(t, principal.Read|principal.Admin, p.Scopes)
	require.Equal(t, `{team="a"}`, p.CacheKey())
	again, _, err := NewToken("a", []string{"read"}, "")
	require.NoError(t, err)
	require.NotEqual(t, token, again)
	_, _, err = NewToken("a", []string{"reed"}, "")
	require.ErrorContains(t, err, `scopes: scope "reed" is unknown`)
}

func TestHeaders(t *testing.T) {
	a, err := New(Options{WebConfigFile: write(t, t.TempDir(), "web.yml",
		"http_server_config: {headers: {X-Frame-Options: sameorigin, Strict-Transport-Security: max-age=1}}")})
	require.NoError(t, err)
	w := httptest.NewRecorder()
	a.Headers(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "sameorigin", "Referrer-Policy": "same-origin",
		"Content-Security-Policy": contentPolicy, "Strict-Transport-Security": "max-age=1",
	} {
		require.Equal(t, want, w.Header().Get(name), name)
	}
}

// TestRequire: only principals with the scope and all series reach the handler.
func TestRequire(t *testing.T) {
	a, err := New(Options{AccessFile: write(t, t.TempDir(), "access.yml", "tokens:\n"+
		"- {name: a, scopes: [admin], sha256: "+sum("all")+"}\n- {name: b, scopes: [read], sha256: "+sum("read")+"}\n"+
		"- {name: c, scopes: [admin], match: up, sha256: "+sum("part")+"}\n")})
	require.NoError(t, err)
	h := a.Require(principal.Admin, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for header, code := range map[string]int{"Bearer all": 200, "Bearer read": 403, "Bearer part": 403, "": 401, "Bearer x": 401} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", header)
		h.ServeHTTP(w, r)
		require.Equal(t, code, w.Code, header)
		require.Equal(t, code == 401, len(w.Header().Values("WWW-Authenticate")) == 2)
	}
}

func FuzzAccessFile(f *testing.F) {
	for _, seed := range []string{
		"", "tokens: [{name: a, scopes: [read], sha256: " + sum("x") + "}]",
		"users: [{name: a, scopes: [read, admin], match: '{a=~\"b.*\"}'}]", "tokens: [&a {name: x}, *a]", "a: &a [*a]",
		"tokens:\n- name: |\n    x\n  scopes: []\n", "users: [{name: a, scopes: [read], tenant: b}, {name: b, tenants: [a, b, a&]}]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		a, err := parseAccess(content, true)
		if err != nil {
			return
		}
		for hash, p := range a.tokens {
			require.NotZero(t, p.Scopes, hash)
			require.NotEmpty(t, p.Name)
			require.False(t, p.Restricted() && p.Scopes.Has(principal.Write))
			for _, tenant := range p.Tenants {
				require.NoError(t, keyschema.CheckTenant(tenant))
			}
		}
	})
}

// TestTenantsOfTokens: entries name one tenant or several, on servers with tenants only.
func TestTenantsOfTokens(t *testing.T) {
	entry := "tokens: [{name: a, scopes: [write], sha256: " + sum("x") + ", %s}]"
	for text, want := range map[string]any{
		"tenant: acme": []string{"acme"}, "tenants: [b, default]": []string{"b", "default"}, "tenants: []": []string(nil),
		"tenant: a&b":                   "tokens[0].tenant: bad name of a tenant",
		"tenants: [a, '..']":            "tokens[0].tenants: bad name of a tenant",
		"tenants: [a, a]":               "is listed twice",
		"tenant: a, tenants: [b]":       "cannot be combined with tenant",
		"tenants: {a: b}":               "line 1",
		"match: '{a=\"b\"}', tenant: a": "leave out the scope write",
	} {
		a, err := parseAccess(fmt.Appendf(nil, entry, text), true)
		if message, bad := want.(string); bad {
			require.ErrorContains(t, err, message)
			continue
		}
		require.NoError(t, err)
		for _, p := range a.tokens {
			require.Equal(t, want, append([]string(nil), p.Tenants...), text)
		}
	}
	_, err := parseAccess(fmt.Appendf(nil, entry, "tenant: acme"), false)
	require.ErrorContains(t, err, "needs a server with --tenants")
	_, entryText, err := NewToken("a", []string{"read"}, "", "acme")
	require.NoError(t, err)
	require.Contains(t, entryText, "tenant: acme")
	_, err = parseAccess([]byte(entryText), true)
	require.NoError(t, err)
}

func FuzzWebConfig(f *testing.F) {
	for _, seed := range []string{
		"", "basic_auth_users: {a: $2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ}", "tls_server_config: {min_version: TLS13}",
		"http_server_config: {http2: false, headers: {X-Frame-Options: deny}}",
	} {
		f.Add([]byte(seed))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		c := &webConfig{}
		if c.parse(filepath.Join(dir, "web.yml"), content) != nil {
			return
		}
		for user, hash := range c.users {
			_, err := bcrypt.Cost(hash)
			require.NoError(t, err, user)
		}
	})
}

// BenchmarkIdentify measures the cost of a request. Sends of 2000 samples take about 1 ms.
func BenchmarkIdentify(b *testing.B) {
	dir := b.TempDir()
	a, err := New(Options{
		WebConfigFile: write(b, dir, "web.yml", fmt.Sprintf("basic_auth_users: {u: %q}", hashOf(b, "pw"))),
		AccessFile:    write(b, dir, "access.yml", "tokens: [{name: a, scopes: [write], sha256: "+sum("x")+"}]"),
	})
	require.NoError(b, err)
	for name, header := range map[string]string{"bearer": "Bearer x", "basic": basic("u", "pw")} {
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("Authorization", header)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.Identify(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
