package auth

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v2"
	"golang.org/x/crypto/bcrypt"
)

// webConfig is the parsed content of a web configuration.
type webConfig struct {
	users map[string][]byte // bcrypt hashes
	// tls is nil if the server speaks plain HTTP.
	tls *tls.Config
	// certificates says that each client needs a verified certificate.
	certificates bool
	headers      map[string]string
	// files are the paths in the configuration, sorted.
	files []string
}

// parseWebConfig parses the content of a web configuration and loads the files that it names. Prometheus's toolkit has checked
// the file before.
func parseWebConfig(path string, content []byte) (*webConfig, error) {
	c := web.Config{
		TLSConfig:  web.TLSConfig{MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS13},
		HTTPConfig: web.HTTPConfig{HTTP2: true},
	}
	if err := yaml.UnmarshalStrict(content, &c); err != nil {
		return nil, withoutValues(err)
	}
	if c.RateLimiterConfig != (web.RateLimiterConfig{}) {
		return nil, errors.New("rate_limit is not supported: senders drop samples that a rate limit refuses; see the flags " +
			"--query.max-concurrency and --web.max-connections")
	}
	c.TLSConfig.SetDirectory(filepath.Dir(path))
	w := &webConfig{users: make(map[string][]byte, len(c.Users)), headers: c.HTTPConfig.Header}
	for _, name := range slices.Sorted(maps.Keys(c.Users)) {
		hash := []byte(c.Users[name])
		if _, err := bcrypt.Cost(hash); err != nil {
			return nil, fmt.Errorf("basic_auth_users: %q: the password must be a bcrypt hash; htpasswd -nB makes one", name)
		}
		w.users[name] = hash
	}
	if !c.TLSConfig.IsEnabled() {
		return w, nil
	}
	for _, file := range []string{c.TLSConfig.TLSCertPath, c.TLSConfig.TLSKeyPath, c.TLSConfig.ClientCAs} {
		if file != "" {
			w.files = append(w.files, file)
		}
	}
	if err := w.loadTLS(&c); err != nil {
		return nil, fmt.Errorf("tls_server_config: %w", err)
	}
	return w, nil
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

// certificateName is the name of the owner of a client's verified certificate; "" if there is none.
func certificateName(state *tls.ConnectionState) string {
	if state == nil || len(state.VerifiedChains) == 0 {
		return ""
	}
	subject := state.PeerCertificates[0].Subject
	return cmp.Or(subject.CommonName, subject.String(), "unnamed")
}
