package loadtest

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Target is a server to be loaded.
type Target struct {
	// Name is what reports call it. Default the query URL.
	Name string
	// WriteURL takes remote write 1.0. Required.
	WriteURL string
	// QueryURL is what comes before /api/v1 of the Prometheus HTTP API. Required.
	QueryURL string
	// PID is the server's process on this machine, for CPU and memory; 0 leaves them out.
	PID int
	// Dir is the server's data directory on this machine, for its size; empty leaves it out.
	Dir string
	// FlushURL is POSTed before the size of Dir is taken; empty leaves it as it stands.
	FlushURL string
	// Params are added to every query, such as nocache=1.
	Params url.Values
}

// ErrTarget is wrapped by the errors of a target's description; the caller has to change it.
var ErrTarget = errors.New("target")

// ParseTarget reads "name=…;write=…;query=…;pid=…;dir=…;flush=…;params=…"; write and query are required.
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
		case "pid":
			t.PID, err = strconv.Atoi(value)
		case "dir":
			t.Dir = value
		case "flush":
			t.FlushURL = value
		case "params":
			t.Params, err = url.ParseQuery(value)
		default:
			err = errors.New("unknown; known are name, write, query, pid, dir, flush and params")
		}
		if err != nil {
			return t, fmt.Errorf("%w %q: key %q: %w", ErrTarget, text, key, err)
		}
	}
	return t, t.Validate()
}

// Validate fills in defaults and reports every fault at once.
func (t *Target) Validate() error {
	t.QueryURL = strings.TrimRight(t.QueryURL, "/")
	if t.Name == "" {
		t.Name = t.QueryURL
	}
	faults := []error{checkURL("write", t.WriteURL), checkURL("query", t.QueryURL)}
	if t.FlushURL != "" {
		faults = append(faults, checkURL("flush", t.FlushURL))
	}
	if t.PID < 0 {
		faults = append(faults, fmt.Errorf("%w: pid is %d", ErrTarget, t.PID))
	}
	return errors.Join(faults...)
}

func checkURL(what, text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return fmt.Errorf("%w: %s URL: %w", ErrTarget, what, err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%w: %s URL is %q, it must be like http://host:port/path", ErrTarget, what, text)
	}
	return nil
}
