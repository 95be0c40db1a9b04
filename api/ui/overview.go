package ui

import (
	"net/http"
	"strings"

	"github.com/grafana/regexp"
)

// Overview is what the first page shows of the server itself.
type Overview struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	APIVersion string `json:"apiVersion"`
	DocsURL    string `json:"docsUrl"`
	// Ready says whether the server answers requests, and Reason why not.
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
	// Arriving says that samples arrive, and Waiting that none arrived in the past hour. Both are false while the server does
	// not know.
	Arriving bool `json:"arriving"`
	Waiting  bool `json:"waiting"`
	// Refused are the refusals of the past hour, the most recent first.
	Refused []Refusal `json:"refused"`
	// URL is where users reach the server, without a slash at the end.
	URL string `json:"url"`
	// OwnJob is the label job of the server's own samples; "" if it does not store them.
	OwnJob string `json:"ownJob,omitempty"`
}

// Refusal describes the requests or samples that were refused for one reason.
type Refusal struct {
	// What counts it, as in "3 write requests". Why is the cause, without a full stop.
	What string `json:"what"`
	Why  string `json:"why"`
	// From is the last sender, Example the message that it got, and AtMs the time in unix milliseconds.
	From    string `json:"from"`
	Example string `json:"example,omitempty"`
	AtMs    int64  `json:"atMs"`
	// Line is the line of configuration that fixes it, and Where its place; "" if there is none.
	Line  string `json:"line,omitempty"`
	Where string `json:"where,omitempty"`
}

// Hosts makes URLs from the Host headers of requests.
type Hosts struct{ valid *regexp.Regexp }

// NewHosts returns a Hosts.
func NewHosts() Hosts {
	return Hosts{regexp.MustCompile(`^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?$`)}
}

// URL returns the address under which the client reached this server. A Host header without a valid host becomes localhost.
func (h Hosts) URL(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		scheme = "https"
	}
	host := r.Host
	if !h.valid.MatchString(host) {
		host = "localhost"
	}
	return scheme + "://" + host
}
