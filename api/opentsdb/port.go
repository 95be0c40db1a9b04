package opentsdb

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"halite/api/receiver/opentsdb"
)

// apiVersion is the version of OpenTSDB's API.
const apiVersion = 1

// families returns the first segments of OpenTSDB's paths after /api/.
func families() []string {
	return []string{
		"aggregators", "annotation", "annotations", "config", "dropcaches", "histogram", "put", "query", "rollup", "search",
		"serializers", "stats", "status", "suggest", "tree", "uid", "version",
	}
}

// deepFamilies returns the first segments that have paths below them.
func deepFamilies() []string {
	return []string{"annotation", "config", "query", "search", "stats", "tree", "uid"}
}

// bareFamilies returns the first segments that OpenTSDB also serves without /api/.
func bareFamilies() []string { return []string{"aggregators", "stats", "suggest", "version"} }

// Port returns the handler of OpenTSDB's own address. It passes OpenTSDB's paths to main, without their version, and answers 404
// to all others.
func Port(main http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, err := ownPath(r.URL.Path)
		switch {
		case err != nil:
			answer := opentsdb.Failure(http.StatusNotImplemented, "Requested API version is greater than the max implemented", err.Error())
			answer.Write(w)
		case path == "":
			NotFound(w, r)
		default:
			at := *r.URL
			at.Path, at.RawPath = path, ""
			main.ServeHTTP(w, withURL(r, &at))
		}
	})
}

// withURL returns a request for another URL.
func withURL(r *http.Request, at *url.URL) *http.Request {
	out := r.WithContext(r.Context())
	out.URL = at
	return out
}

// ownPath returns the path of the main address that answers a path here, "" if there is none.
func ownPath(path string) (string, error) {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	if first := strings.ToLower(segments[0]); first != "api" {
		if len(segments) == 1 && slices.Contains(bareFamilies(), first) {
			return "/api/" + first, nil
		}
		return "", nil
	}
	segments = segments[1:]
	if len(segments) > 0 && len(segments[0]) > 1 && (segments[0][0] == 'v' || segments[0][0] == 'V') &&
		segments[0][1] >= '0' && segments[0][1] <= '9' {
		if v, err := strconv.Atoi(segments[0][1:]); err != nil || v > apiVersion {
			return "", fmt.Errorf("API version [%s] is greater than the max [%d]", segments[0][1:], apiVersion)
		}
		segments = segments[1:]
	}
	if len(segments) == 0 {
		return "", nil
	}
	segments[0] = strings.ToLower(segments[0])
	if !slices.Contains(families(), segments[0]) {
		return "", nil
	}
	if !slices.Contains(deepFamilies(), segments[0]) {
		segments = segments[:1] // OpenTSDB ignores the rest of the path
	}
	return "/api/" + strings.Join(segments, "/"), nil
}

// NotFound answers 404 in OpenTSDB's JSON.
func NotFound(w http.ResponseWriter, _ *http.Request) {
	answer := opentsdb.Failure(http.StatusNotFound, "Endpoint not found", "")
	answer.Write(w)
}

// WriteError answers an error in OpenTSDB's JSON.
func WriteError(w http.ResponseWriter, _ *http.Request, status int, message string) {
	details := ""
	if status == http.StatusMethodNotAllowed {
		message, details = "Method not allowed", message
	}
	answer := opentsdb.Failure(status, message, details)
	answer.Write(w)
}
