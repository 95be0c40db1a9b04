package api

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // of the page and its style
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"github.com/grafana/regexp"
)

//go:embed landing.html
var landingHTML string

//go:embed landing.css
var landingCSS string

// hostPattern is what a Host header may look like to be shown as part of a URL.
const hostPattern = `^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?$`

// landingPage is the page at /: what runs here, and how to connect to it.
type landingPage struct {
	build  BuildInfo
	page   *template.Template
	policy string
	host   *regexp.Regexp
}

func newLandingPage(build BuildInfo) (*landingPage, error) {
	page, err := template.New("landing").Parse(landingHTML)
	if err != nil {
		return nil, err
	}
	host, err := regexp.Compile(hostPattern)
	if err != nil {
		return nil, err
	}
	// The page loads nothing; its one style block is allowed by its hash.
	sum := sha256.Sum256([]byte(landingCSS))
	policy := fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'; "+
		"frame-ancestors 'none'", base64.StdEncoding.EncodeToString(sum[:]))
	return &landingPage{build: build, page: page, policy: policy, host: host}, nil
}

// landingPage answers /.
func (s *Server) landingPage(w http.ResponseWriter, r *http.Request) {
	l, state := s.landing, s.opts.Ready()
	var page bytes.Buffer
	err := l.page.Execute(&page, map[string]any{
		"Name": l.build.Name, "Version": l.build.Version, "APIVersion": l.build.APIVersion, "DocsURL": l.build.DocsURL,
		"Style": template.CSS(landingCSS), "URL": l.url(r), "Ready": state.Ready, "Reason": state.Reason,
	})
	if err != nil {
		s.respondError(w, &apiError{typ: errInternal, err: fmt.Errorf("landing page: %w", err)})
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", l.policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	// A failed write means that the client is gone; nobody is left to tell.
	_, _ = w.Write(page.Bytes())
}

// url is the address under which the client reached this server.
func (l *landingPage) url(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		scheme = "https"
	}
	host := r.Host
	if !l.host.MatchString(host) {
		host = "localhost"
	}
	return scheme + "://" + host
}
