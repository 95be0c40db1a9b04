package main_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"
)

// authority signs certificates for a test.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority writes its certificate to ca.pem in a new directory.
func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// sign writes NAME.pem and NAME.key for 127.0.0.1, for servers and clients.
func (a *authority) sign(name string, c *x509.Certificate) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	if a.cert == nil {
		a.cert, a.key = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key)
	require.NoError(a.t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(a.t, err)
	a.put(name+".pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	a.put(name+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	if c == a.cert {
		a.cert, err = x509.ParseCertificate(der)
		require.NoError(a.t, err)
	}
}

// put replaces a file as a whole and returns its path.
func (a *authority) put(name, content string) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	require.NoError(a.t, os.WriteFile(path+".new", []byte(content), 0o600))
	require.NoError(a.t, os.Rename(path+".new", path))
	return path
}

// client trusts the authority, and shows the certificate of NAME unless that is "".
func (a *authority) client(name string) *http.Client {
	a.t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	config := &tls.Config{RootCAs: pool}
	if name != "" {
		c, err := tls.LoadX509KeyPair(filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key"))
		require.NoError(a.t, err)
		config.Certificates = []tls.Certificate{c}
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	a.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// token is the entry of a token in an access file.
func token(secret, rights string) string {
	hash := sha256.Sum256([]byte(secret))
	return fmt.Sprintf("  - {sha256: %x, name: token %x, %s}\n", hash, hash[:2], rights)
}

// secureServer is a server with TLS.
type secureServer struct {
	*server
	*authority
	http *http.Client
}

// startSecure starts a server with a web configuration, which may hold more than TLS, and an access file unless it is "".
func startSecure(t testing.TB, a *authority, web, access string, flags ...string) *secureServer {
	t.Helper()
	a.sign("server", &x509.Certificate{})
	config := "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n" + web
	flags = append(flags, "--no-web.self-scrape", "--web.config.file", a.put("web.yml", config))
	if access != "" {
		flags = append(flags, "--web.access-file", a.put("access.yml", access))
	}
	s := &secureServer{server: launch(t, t.TempDir(), freeAddress(t), flags...), authority: a}
	s.url = strings.Replace(s.url, "http:", "https:", 1)
	return s
}

// await waits until the server is ready for a client.
func (s *secureServer) await(c *http.Client) {
	s.server.t.Helper()
	s.http = c
	var last string
	require.Eventually(s.server.t, func() bool {
		resp, err := c.Get(s.url + "/-/ready")
		if err != nil {
			last = err.Error()
			return false
		}
		last = resp.Status
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, time.Minute, 50*time.Millisecond, "%s\n%s", s.log, last)
}

// request sends a request with the header Authorization, or as USER:PASSWORD.
func (s *secureServer) request(method, path, as string, body []byte) (status int, text string) {
	s.server.t.Helper()
	req, err := http.NewRequest(method, s.url+path, bytes.NewReader(body))
	require.NoError(s.server.t, err)
	if user, password, basic := strings.Cut(as, ":"); basic {
		req.SetBasicAuth(user, password)
	} else if as != "" {
		req.Header.Set("Authorization", "Bearer "+as)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/x-protobuf")
		req.Header.Set("Content-Encoding", "snappy")
	}
	resp, err := s.http.Do(req)
	require.NoError(s.server.t, err)
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	require.NoError(s.server.t, err)
	return resp.StatusCode, string(content)
}

// bcryptOf is the hash of a password.
func bcryptOf(t testing.TB, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	require.NoError(t, err)
	return string(hash)
}

// TestLogIn runs a server with TLS, a user and tokens. It checks the rights of each, commands that log in, and that no
// response holds a secret.
func TestLogIn(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	hash := bcryptOf(t, "user-secret")
	s := startSecure(t, a, fmt.Sprintf("basic_auth_users: {boss: %q}\n", hash), "tokens:\n"+token("write-secret", "scopes: [write]")+
		token("read-secret", "scopes: [read]")+token("part-secret", `scopes: [read, admin], match: '{instance="host-1"}'`),
		"--web.enable-admin-api", "--web.enable-pprof", "--web.enable-lifecycle", "--log.level=debug")
	s.await(a.client(""))
	now := time.Now()
	body := encodeWrite(wave("secured", 3, now.Add(-2*time.Minute), now, 15*time.Second))
	for _, c := range []struct {
		method, path, as string
		body             []byte
		status           int
		holds            string
	}{
		{"POST", "/api/v1/write", "", body, 401, "log in"},
		{"POST", "/api/v1/write", "wrong", body, 401, "the token is unknown"},
		{"POST", "/api/v1/write", "boss:wrong", body, 401, "the user or the password is wrong"},
		{"POST", "/api/v1/write", "read-secret", body, 403, "has the scopes read; this request needs write"},
		{"POST", "/api/v1/write", "write-secret", body, 204, ""},
		{"POST", "/api/v1/write", "boss:user-secret", body, 204, ""},
		{"GET", "/api/v1/query?query=count(secured)", "write-secret", nil, 403, "this request needs read"},
		{"GET", "/api/v1/query?query=count(secured)", "read-secret", nil, 200, `"3"`},
		{"GET", "/api/v1/query?query=count(secured)", "part-secret", nil, 200, `"1"`},
		{"GET", "/api/v1/query?query=count(secured)", "boss:user-secret", nil, 200, `"3"`},
		{"GET", "/api/v1/label/instance/values", "part-secret", nil, 200, `["host-1"]`},
		{"GET", "/api/v1/status/tsdb", "part-secret", nil, 403, "restricted"},
		{"POST", "/write?u=boss&p=user-secret", "", nil, 204, ""}, {"POST", "/write?u=any&p=write-secret", "", nil, 204, ""},
		{"POST", "/api/v2/write?bucket=b", "any:write-secret", nil, 204, ""},
		{"POST", "/write?u=boss&p=wrong-secret", "", nil, 401, `{"error":"the user or the password is wrong"}`},
		{"POST", "/write?db=x", "", nil, 401, `{"error":"log in`}, {"POST", "/write?u=any&p=read-secret", "", nil, 403, `{"error":`},
		{"POST", "/api/v2/write?u=any&p=read-secret", "", nil, 403, `{"code":"forbidden"`},
		{"POST", "/api/v1/import?u=boss&p=user-secret", "", nil, 401, ""},
		{"GET", "/metrics", "", nil, 401, ""}, {"GET", "/metrics", "read-secret", nil, 200, "tsdb_http_rejected_total"},
		{"GET", "/debug/pprof/cmdline", "read-secret", nil, 403, "admin"},
		{"GET", "/debug/pprof/cmdline", "part-secret", nil, 403, "without restrictions"},
		{"GET", "/-/healthy", "", nil, 200, ""}, {"GET", "/-/healthy", "wrong", nil, 200, ""},
		{"POST", "/-/reload", "read-secret", nil, 403, ""}, {"POST", "/-/reload", "boss:user-secret", nil, 200, ""},
		{"POST", "/api/v1/admin/tsdb/delete_series?match[]=secured", "read-secret", nil, 403, ""},
		{"POST", "/api/v1/admin/tsdb/delete_series?match[]=secured", "part-secret", nil, 204, ""},
		{"GET", "/api/v1/query?query=count(secured)", "read-secret", nil, 200, `"2"`},
	} {
		status, text := s.request(c.method, c.path, c.as, c.body)
		require.Equal(t, c.status, status, "%s as %q: %s", c.path, c.as, text)
		if c.holds != "restricted" {
			require.Contains(t, text, c.holds, "%s as %q", c.path, c.as)
		}
	}
	s.commandsLogIn(t)
	s.noSecrets(t, hash)
	require.NoError(t, s.end(syscall.SIGTERM))
}

// commandsLogIn runs commands against the server.
func (s *secureServer) commandsLogIn(t *testing.T) {
	t.Helper()
	file := s.put("read.token", "read-secret\n")
	run := func(args ...string) (string, error) {
		cmd := command(t, args...)
		cmd.Env = append(cmd.Environ(), "SSL_CERT_FILE="+filepath.Join(s.dir, "ca.pem"))
		out, err := cmd.CombinedOutput()
		require.NotContains(t, string(out), "-secret")
		return string(out), err
	}
	out, err := run("graph", "--url", s.url, "--bearer-token-file", file, "secured")
	require.NoError(t, err, out)
	require.Contains(t, out, "host-0")
	out, err = run("graph", "--url", strings.Replace(s.url, "//", "//boss:user-secret@", 1), "secured")
	require.NoError(t, err, out)
	out, err = run("graph", "--url", strings.Replace(s.url, "//", "//boss:pass-word@", 1), "nothing")
	require.Error(t, err)
	require.Contains(t, out, "the user or the password is wrong")
	require.NotContains(t, out, "pass-word")
	out, err = run("loadtest", "--url", s.url, "--bearer-token-file", file, "--quiet", "--from=10m", "--hosts=2",
		"--settle=0s")
	require.Error(t, err)
	require.Contains(t, out, "this request needs write")
	out, err = run("loadtest", "--url", strings.Replace(s.url, "//", "//boss:user-secret@", 1), "--quiet", "--from=10m", "--hosts=2",
		"--settle=0s")
	require.NoError(t, err, out)
	require.NotContains(t, out, "user-secret")
}

// noSecrets looks for secrets in what the server shows.
func (s *secureServer) noSecrets(t *testing.T, hash string) {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(s.dir, "server.key"))
	require.NoError(t, err)
	secrets := []string{
		"user-secret", "write-secret", "read-secret", "wrong-secret", hash, fmt.Sprintf("%x", sha256.Sum256([]byte("read-secret"))),
		strings.Split(string(key), "\n")[1],
	}
	shown := map[string]string{"the log": s.log.String()}
	for _, path := range []string{
		"/api/v1/status/flags", "/api/v1/status/config", "/api/v1/status/runtimeinfo", "/api/v1/status/senders", "/metrics",
		"/", "/api/v1/status/active_queries", "/debug/pprof/cmdline", "/debug/pprof/heap?debug=1", "/debug/pprof/goroutine?debug=2",
	} {
		status, text := s.request("GET", path, "boss:user-secret", nil)
		require.Equal(t, http.StatusOK, status, path)
		shown[path] = text
	}
	require.Contains(t, shown["/api/v1/status/flags"], "access.yml")
	for place, text := range shown {
		for _, secret := range secrets {
			require.NotContains(t, text, secret, place)
		}
	}
}

// TestExchangeUnderLoad exchanges token, certificate and key while senders write over new connections. No request fails.
func TestExchangeUnderLoad(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	s := startSecure(t, a, "", "tokens:\n"+token("one", "scopes: [write]")+token("reader", "scopes: [read]"))
	s.await(a.client(""))
	secret := "one"
	var exchange sync.RWMutex // senders read the secret and hold the lock until the request ends
	var sent, failed atomic.Int64
	var senders sync.WaitGroup
	var ended atomic.Bool
	for i := range 4 {
		c := a.client("")
		c.Transport.(*http.Transport).DisableKeepAlives = i%2 == 0
		senders.Go(func() {
			for k := int64(0); !ended.Load(); k++ {
				body := encodeWrite([]point{{"exchanged", fmt.Sprint(i), time.Now().UnixMilli(), float64(k)}})
				req, _ := http.NewRequest(http.MethodPost, s.url+"/api/v1/write", bytes.NewReader(body))
				req.Header.Set("Content-Type", "application/x-protobuf")
				req.Header.Set("Content-Encoding", "snappy")
				exchange.RLock()
				req.Header.Set("Authorization", "Bearer "+secret)
				resp, err := c.Do(req)
				exchange.RUnlock()
				if err != nil {
					failed.Add(1)
					t.Log(err)
					continue
				}
				resp.Body.Close()
				if sent.Add(1); resp.StatusCode != http.StatusNoContent {
					failed.Add(1)
					t.Log(resp.Status)
				}
			}
		})
	}
	works := func(secret string, want int) func() bool {
		return func() bool {
			status, _ := s.request("POST", "/api/v1/write", secret, encodeWrite([]point{{"probe", "a", time.Now().UnixMilli(), 1}}))
			return status == want
		}
	}
	serial := func() string {
		c, err := tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"), s.http.Transport.(*http.Transport).TLSClientConfig)
		require.NoError(t, err)
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	reader, before := token("reader", "scopes: [read]"), serial()
	s.put("access.yml", "tokens:\n"+token("one", "scopes: [write]")+token("two", "scopes: [write]")+reader)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGHUP))
	require.Eventually(t, works("two", 204), time.Minute, 20*time.Millisecond)
	exchange.Lock() // no request has the previous token any more
	secret = "two"
	exchange.Unlock()
	a.sign("server", &x509.Certificate{}) // certificate and key do not fit for a moment
	require.Eventually(t, func() bool { return serial() != before }, time.Minute, 50*time.Millisecond, "found without a signal")
	s.put("access.yml", "tokens:\n"+token("two", "scopes: [write]")+reader)
	require.Eventually(t, works("one", 401), time.Minute, 20*time.Millisecond)
	s.put("access.yml", "tokens: [")
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGHUP))
	require.Eventually(t, func() bool { return strings.Contains(s.log.String(), "access.yml: ") }, time.Minute, 20*time.Millisecond)
	ended.Store(true)
	senders.Wait()
	require.Zero(t, failed.Load(), s.log)
	require.Greater(t, sent.Load(), int64(20))
	_, text := s.request("GET", "/metrics", "reader", nil)
	require.Contains(t, text, "tsdb_web_auth_last_reload_successful 0")
}

// TestClientCertificates: a verified certificate is enough to log in, and the access file may take rights away.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	for _, name := range []string{"operator", "viewer"} {
		a.sign(name, &x509.Certificate{})
	}
	s := startSecure(t, a, "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n",
		"users: [{name: viewer, scopes: [read]}]\n")
	s.await(a.client("viewer"))
	status, text := s.request("GET", "/api/v1/query?query=1", "", nil)
	require.Equal(t, http.StatusOK, status, text)
	status, text = s.request("POST", "/api/v1/write", "", []byte{})
	require.Equal(t, http.StatusForbidden, status, text)
	s.http = a.client("operator")
	status, text = s.request("POST", "/api/v1/write", "", encodeWrite([]point{{"m", "a", time.Now().UnixMilli(), 1}}))
	require.Equal(t, http.StatusNoContent, status, text)
	_, err := a.client("").Get(s.url + "/-/healthy")
	require.Error(t, err, "without a certificate")
	resp, err := http.Get(strings.Replace(s.url, "https:", "http:", 1))
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, http.StatusBadRequest, resp.StatusCode, "plain HTTP")
}

// TestRevokedAuthority: after a reload with another authority, connections with certificates of the previous one are refused.
func TestRevokedAuthority(t *testing.T) {
	t.Parallel()
	a, next := newAuthority(t), newAuthority(t)
	a.sign("operator", &x509.Certificate{})
	s := startSecure(t, a, "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n", "")
	s.await(a.client("operator"))
	status, text := s.request("GET", "/api/v1/query?query=1", "", nil)
	require.Equal(t, http.StatusOK, status, text)
	other, err := os.ReadFile(filepath.Join(next.dir, "ca.pem"))
	require.NoError(t, err)
	a.put("ca.pem", string(other))
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGHUP))
	require.Eventually(t, func() bool {
		resp, err := s.http.Get(s.url + "/api/v1/query?query=1")
		if err != nil { // a new connection
			return true
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusUnauthorized
	}, time.Minute, 20*time.Millisecond)
	require.Eventually(t, func() bool {
		_, err := s.http.Get(s.url + "/api/v1/query?query=1")
		return err != nil
	}, time.Minute, 20*time.Millisecond, "the refused connection ends")
}

// TestExposedServer: a server that other machines can reach needs a log in, or the flag that says so.
func TestExposedServer(t *testing.T) {
	t.Parallel()
	_, port, err := net.SplitHostPort(freeAddress(t))
	require.NoError(t, err)
	out, err := command(t, "serve", "--storage.path", t.TempDir(), "--web.listen-address", "0.0.0.0:"+port).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "nobody has to log in; set --web.config.file or --web.access-file")
	require.Contains(t, string(out), "--web.insecure")
	out, err = command(t, "emulator", "--listen-address", "0.0.0.0:0").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "--insecure")

	s := startServerAt(t, t.TempDir(), "0.0.0.0:"+port, "--web.insecure", "--no-web.self-scrape")
	require.Contains(t, s.log.String(), "(--web.insecure)")
	status, response := s.get("/api/v1/query", url.Values{"query": {"1"}})
	require.Equal(t, http.StatusOK, status, response.Error)
	require.NoError(t, s.end(syscall.SIGTERM))

	out, err = command(t, "token", "create", "--name=a", "--scope=read").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "scopes: [read]")
}
