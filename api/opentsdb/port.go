package opentsdb

import (
	"context"
	"errors"
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

// bareKey is the key of a request's context whose path has no /api/.
type bareKey struct{}

// isBare reports whether the path of a request has no /api/. Some of OpenTSDB's paths answer such requests with text.
func isBare(r *http.Request) bool { return r.Context().Value(bareKey{}) != nil }

// Port returns the handler of OpenTSDB's own address. It passes OpenTSDB's paths to main, without their version, and answers 404
// to all others.
func Port(main http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, err := ownPath(r.URL.Path)
		if err == nil {
			err = checkSerializer(r)
		}
		if refused := new(failure); errors.As(err, &refused) {
			answer := opentsdb.Failure(refused.status, refused.message, refused.details)
			answer.Write(w)
			return
		}
		if path == "" {
			NotFound(w, r)
			return
		}
		if !strings.EqualFold(firstSegment(r.URL.Path), "api") {
			r = r.WithContext(context.WithValue(r.Context(), bareKey{}, true))
		}
		at := *r.URL
		at.Path, at.RawPath = path, ""
		main.ServeHTTP(w, withURL(r, &at))
	})
}

// checkSerializer refuses a serializer other than JSON, which is the only one.
func checkSerializer(r *http.Request) error {
	if !strings.Contains(r.URL.RawQuery, "serializer") {
		return nil
	}
	names, given := r.URL.Query()["serializer"]
	if !given || names[len(names)-1] == "json" {
		return nil
	}
	return &failure{
		status: http.StatusBadRequest, message: "Requested serializer was not found",
		details: "Could not find a serializer with the name: " + opentsdb.Shown(names[len(names)-1]),
	}
}

// withURL returns a request for another URL.
func withURL(r *http.Request, at *url.URL) *http.Request {
	out := r.WithContext(r.Context())
	out.URL = at
	return out
}

func firstSegment(path string) string {
	first, _, _ := strings.Cut(strings.Trim(path, "/"), "/")
	return first
}

// ownPath returns the path of the main address that answers a path here, "" if there is none. The error is a failure.
func ownPath(path string) (string, error) {
	segments := strings.Split(strings.Trim(strings.ToLower(path), "/"), "/")
	if first := segments[0]; first != "api" {
		if len(segments) == 1 && slices.Contains(bareFamilies(), first) {
			return "/api/" + first, nil
		}
		return "", nil
	}
	segments = segments[1:]
	if len(segments) > 0 && len(segments[0]) > 1 && segments[0][0] == 'v' && segments[0][1] >= '0' && segments[0][1] <= '9' {
		if err := checkVersion(segments[0][1:]); err != nil {
			return "", err
		}
		segments = segments[1:]
	}
	if len(segments) == 0 || !slices.Contains(families(), segments[0]) {
		return "", nil
	}
	family, endpoint := segments[0], ""
	if len(segments) > 1 && slices.Contains(deepFamilies(), family) {
		endpoint = segments[1] // OpenTSDB ignores the rest of the path
	}
	switch {
	case family == "query" && !slices.Contains([]string{"last", "exp", "gexp"}, endpoint),
		family == "config" && endpoint != "filters":
		endpoint = ""
	case family == "annotation" && strings.HasSuffix(endpoint, "bulk"):
		endpoint = "bulk"
	case family == "annotation":
		endpoint = ""
	}
	return strings.TrimSuffix("/api/"+family+"/"+endpoint, "/"), nil
}

// checkVersion refuses versions of the API that do not exist.
func checkVersion(text string) error {
	v, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return &failure{
			status: http.StatusBadRequest, message: "Invalid API version format supplied",
			details: fmt.Sprintf("API version [%s] cannot be parsed to an integer", opentsdb.Shown(text)),
		}
	case v > apiVersion:
		return &failure{
			status: http.StatusNotImplemented, message: "Requested API version is greater than the max implemented",
			details: fmt.Sprintf("API version [%d] is greater than the max [%d]", v, apiVersion),
		}
	}
	return nil
}

// NotFound answers 404 in OpenTSDB's JSON.
func NotFound(w http.ResponseWriter, _ *http.Request) {
	answer := opentsdb.Failure(http.StatusNotFound, "Endpoint not found", "")
	answer.Write(w)
}

// WriteError answers an error in OpenTSDB's JSON.
func WriteError(w http.ResponseWriter, r *http.Request, status int, message string) {
	details := ""
	if status == http.StatusMethodNotAllowed {
		message = "Method not allowed"
		details = fmt.Sprintf("The HTTP method [%s] is not permitted for this endpoint", opentsdb.Shown(r.Method))
	}
	answer := opentsdb.Failure(status, message, details)
	answer.Write(w)
}
