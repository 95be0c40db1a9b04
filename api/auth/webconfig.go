package auth

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v2"
	"golang.org/x/crypto/bcrypt"
)

// verifiedMax bounds the cached results for certificates of clients.
const verifiedMax = 1024

// webConfig is the parsed content of a web configuration.
type webConfig struct {
	users map[string][]byte // bcrypt hashes
	// tls is nil if the server speaks plain HTTP.
	tls *tls.Config
	// certificates says that each client needs a verified certificate.
	certificates bool
	// verified caches whether the authorities vouch for a certificate.
	verified *lru.Cache[*x509.Certificate, bool]
	headers  map[string]string
	// files are the paths in the configuration, sorted.
	files []string
}

// parse parses the content of a web configuration and loads the files that it names.
func (w *webConfig) parse(path string, content []byte) error {
	c := web.Config{
		TLSConfig:  web.TLSConfig{MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS13},
		HTTPConfig: web.HTTPConfig{HTTP2: true},
	}
	if err := yaml.UnmarshalStrict(content, &c); err != nil {
		return withoutValues(err)
	}
	if c.RateLimiterConfig != (web.RateLimiterConfig{}) {
		return errors.New("rate_limit is not supported: senders drop samples that a rate limit refuses; see the flags " +
			"--query.max-concurrency and --web.max-connections")
	}
	c.TLSConfig.SetDirectory(filepath.Dir(path))
	w.users, w.headers = make(map[string][]byte, len(c.Users)), c.HTTPConfig.Header
	for _, name := range slices.Sorted(maps.Keys(c.Users)) {
		hash := []byte(c.Users[name])
		if _, err := bcrypt.Cost(hash); err != nil {
			return fmt.Errorf("basic_auth_users: %q: the password must be a bcrypt hash; htpasswd -nB makes one", name)
		}
		w.users[name] = hash
	}
	if !c.TLSConfig.IsEnabled() {
		return nil
	}
	for _, file := range []string{c.TLSConfig.TLSCertPath, c.TLSConfig.TLSKeyPath, c.TLSConfig.ClientCAs} {
		if file != "" {
			w.files = append(w.files, file)
		}
	}
	if err := w.loadTLS(&c); err != nil {
		return fmt.Errorf("tls_server_config: %w", err)
	}
	return nil
}

// loadTLS makes the configuration of TLS.
func (w *webConfig) loadTLS(c *web.Config) (err error) {
	if w.tls, err = web.ConfigToTLSConfig(&c.TLSConfig); err != nil {
		return err
	}
	// The toolkit would read the certificate at each handshake. Then a handshake fails while the files are replaced.
	certificate, err := w.tls.GetCertificate(nil)
	if err != nil {
		return err
	}
	w.tls.GetCertificate, w.tls.Certificates = nil, []tls.Certificate{*certificate}
	w.tls.NextProtos = []string{"http/1.1"}
	if c.HTTPConfig.HTTP2 {
		w.tls.NextProtos = []string{"h2", "http/1.1"}
	}
	if w.tls.ClientAuth == tls.RequireAndVerifyClientCert {
		w.certificates = true
		if w.tls.ClientCAs == nil {
			return errors.New("client_auth_type RequireAndVerifyClientCert needs client_ca_file")
		}
		w.verified, _ = lru.New[*x509.Certificate, bool](verifiedMax) // fails only for a size below 1
	}
	return nil
}

// checkWebConfig lets Prometheus's toolkit check a file, as it checks it in other servers.
func checkWebConfig(path string) error {
	if err := web.Validate(path); err != nil {
		return withoutValues(err)
	}
	return nil
}

// accepts reports whether the authorities of the configuration vouch for the certificate of a connection. The handshake may have
// used an earlier configuration.
func (w *webConfig) accepts(state *tls.ConnectionState) bool {
	if !w.certificates {
		return true
	}
	if len(state.PeerCertificates) == 0 {
		return false
	}
	leaf := state.PeerCertificates[0]
	if ok, known := w.verified.Get(leaf); known {
		return ok
	}
	o := x509.VerifyOptions{
		Roots: w.tls.ClientCAs, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range state.PeerCertificates[1:] {
		o.Intermediates.AddCert(c)
	}
	_, err := leaf.Verify(o)
	w.verified.Add(leaf, err == nil)
	return err == nil
}

// certificateName is the name of the owner of a client's verified certificate; "" if there is none.
func certificateName(state *tls.ConnectionState) string {
	if state == nil || len(state.VerifiedChains) == 0 {
		return ""
	}
	subject := state.PeerCertificates[0].Subject
	return cmp.Or(subject.CommonName, subject.String(), "unnamed")
}
