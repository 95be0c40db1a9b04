package client

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// Target is a server under test.
type Target struct {
	// Name is the server's name in reports. Default: the query URL without its password.
	Name string
	// WriteURL is the server's remote-write 1.0 endpoint. Required.
	WriteURL string
	// QueryURL is the base of the Prometheus HTTP API, without /api/v1. Required.
	QueryURL string
	// Token is the bearer token of all requests. Empty sends none.
	Token string
	// PID is the server's process on this machine, whose CPU time and memory are measured. 0 measures neither.
	PID int
	// Dir is the server's data directory on this machine, whose size is measured. Empty measures none.
	Dir string
	// FlushURL is called with POST before the size of Dir is measured. Empty calls nothing.
	FlushURL string
	// Params are added to every query, for instance nocache=1.
	Params url.Values
}

// ErrTarget is wrapped by all errors of ParseTarget and Target.Validate. The caller has to correct the target.
var ErrTarget = errors.New("target")

// ParseTarget parses "name=…;write=…;query=…;token-file=…;pid=…;dir=…;flush=…;params=…". Write and query are required.
func ParseTarget(text string) (Target, error) {
	var t Target
	for _, pair := range strings.Split(text, ";") {
		key, value, found := strings.Cut(strings.TrimSpace(pair), "=")
		if key == "" && !found {
			continue
		}
		var err error
		switch key {
		case "name":
			t.Name = value
		case "write":
			t.WriteURL = value
		case "query":
			t.QueryURL = value
		case "token-file":
			var content []byte
			content, err = os.ReadFile(value)
			t.Token = strings.TrimSpace(string(content))
		case "pid":
			t.PID, err = strconv.Atoi(value)
		case "dir":
			t.Dir = value
		case "flush":
			t.FlushURL = value
		case "params":
			t.Params, err = url.ParseQuery(value)
		default:
			err = errors.New("unknown key; valid keys are name, write, query, token-file, pid, dir, flush and params")
		}
		if err != nil {
			return t, fmt.Errorf("%w %q: %q: %w", ErrTarget, text, key, err)
		}
	}
	return t, t.Validate()
}

// Validate fills in defaults and reports all errors at once.
func (t *Target) Validate() error {
	t.QueryURL = strings.TrimRight(t.QueryURL, "/")
	if t.Name == "" {
		t.Name = withoutPassword(t.QueryURL)
	}
	errs := []error{checkURL("write", t.WriteURL), checkURL("query", t.QueryURL)}
	if t.FlushURL != "" {
		errs = append(errs, checkURL("flush", t.FlushURL))
	}
	if t.PID < 0 {
		errs = append(errs, fmt.Errorf("%w: pid is %d; it must not be negative", ErrTarget, t.PID))
	}
	return errors.Join(errs...)
}

func checkURL(name, text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return fmt.Errorf("%w: %s URL is not a URL", ErrTarget, name) // err could hold the password
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%w: %s URL is %q; it must have the form http://host:port/path", ErrTarget, name, u.Redacted())
	}
	return nil
}

func withoutPassword(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "target"
	}
	return u.Redacted()
}
