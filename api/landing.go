package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // of the page and its style
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/grafana/regexp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
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
	arriving, known := s.arriving(r.Context(), state.Ready)
	var page bytes.Buffer
	err := l.page.Execute(&page, map[string]any{
		"Name": l.build.Name, "Version": l.build.Version, "APIVersion": l.build.APIVersion, "DocsURL": l.build.DocsURL,
		"Style": template.CSS(landingCSS), "URL": l.url(r), "Ready": state.Ready, "Reason": state.Reason,
		"Arriving": arriving, "Waiting": known && !arriving, "OwnJob": s.opts.OwnJob,
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

// arriving reports whether samples that are not the server's own have come within the past hour; it is not known if the
// catalogue cannot tell soon.
func (s *Server) arriving(ctx context.Context, ready bool) (arriving, known bool) {
	if !ready {
		return false, false
	}
	ctx, cancel := context.WithTimeout(ctx, landingWait)
	defer cancel()
	var others []*labels.Matcher
	if s.opts.OwnJob != "" {
		others = append(others, labels.MustNewMatcher(labels.MatchNotEqual, "job", s.opts.OwnJob))
	}
	nowMs := s.opts.Now().UnixMilli()
	names, err := s.opts.Catalogue.LabelValues(ctx, model.MetricNameLabel, nowMs-time.Hour.Milliseconds(), nowMs, 1, others...)
	return len(names) > 0, err == nil
}

// landingWait bounds the look-up for the landing page.
const landingWait = time.Second

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
