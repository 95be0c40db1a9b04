package auth

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"halite/storage/principal"
)

// Reasons of a Refusal.
const (
	// ReasonNoCredentials: the request has no credentials.
	ReasonNoCredentials = "no_credentials"
	// ReasonBadCredentials: the user, the password or the token is wrong.
	ReasonBadCredentials = "bad_credentials"
	// ReasonBadCertificate: the server no longer accepts the certificate that the client showed when it connected, or needs one.
	ReasonBadCertificate = "bad_certificate"
	// ReasonBusy: too many passwords wait for their check.
	ReasonBusy = "password_checks"
)

// Refusal is the error of a request whose sender could not be identified.
type Refusal struct {
	Reason string
	text   string
}

func (e *Refusal) Error() string { return e.text }

// Authenticator identifies the sender of a request. Make one with New.
type Authenticator struct {
	opts      Options
	passwords *passwords
	current   atomic.Pointer[state]

	mu      sync.Mutex // held during a reload
	seen    digest     // digest of the files at the last reload, even if it failed
	watched []string   // certificates and keys that the web configuration names
	lastErr string
	loaded  atomic.Bool
	at      atomic.Int64 // Unix time in ms of the last good reload
}

// state is an immutable configuration.
type state struct {
	web    *webConfig
	access *access
	// users are the principals of users with a password or a certificate.
	users map[string]*principal.Principal
	// blank means that one of the files is empty.
	blank bool
	// open means that no log-in is required. Then everyone is the principal of all requests.
	open     bool
	everyone *principal.Principal
}

// New loads the files. The error describes their faults.
func New(opts Options) (*Authenticator, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	a := &Authenticator{opts: opts, passwords: newPasswords(&opts)}
	if err := a.Reload(); err != nil {
		return nil, err
	}
	return a, a.register()
}

// Identify returns the principal that sends a request. The error is a *Refusal.
func (a *Authenticator) Identify(r *http.Request) (*principal.Principal, error) {
	s := a.current.Load()
	if s.open {
		return s.everyone, nil
	}
	if r.TLS != nil && !s.web.accepts(r.TLS) {
		return nil, &Refusal{ReasonBadCertificate, "the server does not accept the certificate of this connection; connect again"}
	}
	header := r.Header.Get("Authorization")
	if header == "" {
		if name := certificateName(r.TLS); name != "" && s.byCertificate() {
			return s.principalOf(name), nil
		}
		return nil, &Refusal{ReasonNoCredentials, "log in with a user and password, or with a bearer token"}
	}
	scheme, credentials, _ := strings.Cut(header, " ")
	switch strings.ToLower(scheme) {
	case "bearer", "token": // the scheme of InfluxDB 2's clients
		if p := s.access.tokens[sha256.Sum256([]byte(strings.TrimSpace(credentials)))]; p != nil {
			return p, nil
		}
		return nil, &Refusal{ReasonBadCredentials, "the token is unknown"}
	case "basic":
		return a.basic(r, s)
	}
	return nil, &Refusal{ReasonBadCredentials, "the header Authorization must begin with Basic, Bearer or Token"}
}

// basic checks user and password. An unknown user takes as long as a wrong password.
func (a *Authenticator) basic(r *http.Request, s *state) (*principal.Principal, error) {
	wrong := &Refusal{ReasonBadCredentials, "the user or the password is wrong"}
	user, password, ok := r.BasicAuth()
	if !ok || len(s.web.users) == 0 {
		return nil, wrong
	}
	hash, exists := s.web.users[user]
	if !exists {
		for _, hash = range s.web.users {
			break
		}
	}
	ok, busy := a.passwords.check(r.Context(), user, password, hash)
	switch {
	case busy:
		return nil, &Refusal{ReasonBusy, "too many passwords wait for their check; try again later"}
	case !ok || !exists:
		return nil, wrong
	}
	return s.principalOf(user), nil
}

// byCertificate reports whether a client certificate suffices to log in.
func (s *state) byCertificate() bool {
	return s.web.certificates && len(s.web.users) == 0 && len(s.access.tokens) == 0
}

// principalOf returns the principal of a user. A user without an entry in the access file has every right.
func (s *state) principalOf(user string) *principal.Principal {
	if p := s.users[user]; p != nil {
		return p
	}
	return &principal.Principal{Name: user, Scopes: principal.Every}
}

// Open reports whether no log-in is required.
func (a *Authenticator) Open() bool { return a.current.Load().open }

// TLS returns the TLS configuration of a server; nil for plain HTTP. Reloads take effect in it.
func (a *Authenticator) TLS() *tls.Config {
	if a.current.Load().web.tls == nil {
		return nil
	}
	return &tls.Config{
		NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return a.current.Load().web.tls, nil
		},
	}
}

// ErrExposed is wrapped by the errors of CheckExposure.
var ErrExposed = errors.New("other machines can reach this address, and nobody has to log in")

// CheckExposure refuses an address that other machines can reach, unless clients must log in.
func (a *Authenticator) CheckExposure(addr net.Addr) error {
	if !a.Open() || Loopback(addr) {
		return nil
	}
	return fmt.Errorf("%s: %w", addr, ErrExposed)
}

// Loopback reports whether only this machine can reach an address.
func Loopback(addr net.Addr) bool {
	switch at := addr.(type) {
	case *net.TCPAddr:
		return at.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// Last returns whether the last reload succeeded, and when the configuration in force was loaded.
func (a *Authenticator) Last() (ok bool, at time.Time) {
	return a.loaded.Load(), time.UnixMilli(a.at.Load())
}
