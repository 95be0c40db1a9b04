package landing

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
var pageHTML string

//go:embed landing.css
var pageCSS string

// hostPattern matches the Host headers that the page shows as part of a URL.
const hostPattern = `^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?$`

// Page is the page of one server.
type Page struct {
	page   *template.Template
	policy string
	host   *regexp.Regexp
}

// Data is what the page shows.
type Data struct {
	Name, Version, APIVersion, DocsURL string
	// Ready says whether the server answers requests, and Reason why not.
	Ready  bool
	Reason string
	// Arriving says that samples arrive, and Waiting that none have arrived yet. Both are false while the server does not know.
	Arriving, Waiting bool
	// Refused is what was refused in the past hour, the most recent first.
	Refused []Refusal
	// URL is where users reach the server, without a slash at the end; "" for the address that the request names. Prefix is
	// the path behind that address.
	URL, Prefix string
	// OwnJob is the label job of the server's own samples; "" if it does not store them.
	OwnJob string
}

// Refusal is what was refused for one reason.
type Refusal struct {
	// What counts it, as in "3 write requests". Why is the cause, without a full stop.
	What, Why string
	// From is the last sender, and Example what it was answered. At is the time of day.
	From, Example, At string
	// Line is the line of configuration that mends it, and Where its place; "" if there is none.
	Line, Where string
}

// New parses the page.
func New() (*Page, error) {
	page, err := template.New("landing").Parse(pageHTML)
	if err != nil {
		return nil, err
	}
	host, err := regexp.Compile(hostPattern)
	if err != nil {
		return nil, err
	}
	// The page loads nothing. The policy allows its one style block by the hash.
	sum := sha256.Sum256([]byte(pageCSS))
	policy := fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'; "+
		"frame-ancestors 'none'", base64.StdEncoding.EncodeToString(sum[:]))
	return &Page{page: page, policy: policy, host: host}, nil
}

// Write answers r with the page. On an error it has sent nothing.
func (p *Page) Write(w http.ResponseWriter, r *http.Request, d Data) error {
	var text bytes.Buffer
	if d.URL == "" {
		d.URL = p.url(r) + d.Prefix
	}
	if err := p.page.Execute(&text, struct {
		Data
		Style template.CSS
	}{d, template.CSS(pageCSS)}); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", p.policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	// A failed write means that the client is gone.
	_, _ = w.Write(text.Bytes())
	return nil
}

// url returns the address under which the client reached this server.
func (p *Page) url(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		scheme = "https"
	}
	host := r.Host
	if !p.host.MatchString(host) {
		host = "localhost"
	}
	return scheme + "://" + host
}
