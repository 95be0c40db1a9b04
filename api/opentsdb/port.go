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

// bareFamilies returns the paths of one segment that OpenTSDB serves without /api/, with the family that answers.
func bareFamilies() map[string]string {
	return map[string]string{
		"aggregators": "aggregators", "q": "query", "stats": "stats", "suggest": "suggest", "version": "version",
	}
}

// bareKey is the key of a request's context whose path has no /api/.
type bareKey struct{}

// IsBare reports whether the path of a request has no /api/. Some of OpenTSDB's paths answer such requests with text.
func IsBare(r *http.Request) bool { return r.Context().Value(bareKey{}) != nil }

// Port returns the handler of OpenTSDB's own address. It passes OpenTSDB's paths to main, without their version, and answers 404
// to all others.
func Port(main http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, err := target(r.URL)
		if refused := new(failure); errors.As(err, &refused) {
			response := opentsdb.Failure(refused.status, refused.message, refused.details)
			response.Write(w)
			return
		}
		bare := !strings.EqualFold(firstSegment(r.URL.Path), "api")
		graph := bare && at.Path == "/api/query" && !at.Query().Has("ascii")
		if at.Path == "" || graph { // the server draws no graphs
			NotFound(w, r)
			return
		}
		if bare {
			r = r.WithContext(context.WithValue(r.Context(), bareKey{}, true))
		}
		main.ServeHTTP(w, withURL(r, at))
	})
}

// target returns the URL of the main address for a URL of the own address. Its path is "" if there is none. The error is a
// failure.
func target(from *url.URL) (*url.URL, error) {
	at := *from
	var err error
	if at.Path, err = ownPath(from.Path); err != nil {
		return nil, err
	}
	at.RawPath = ""
	if from.RawQuery == "" {
		return &at, nil
	}
	q, err := url.ParseQuery(strings.ReplaceAll(from.RawQuery, ";", "&")) // OpenTSDB separates parameters by either
	if err != nil {
		return nil, badRequest("Bad query string: %s", err)
	}
	for name, values := range q {
		if !slices.Contains(repeatedParameters(), name) {
			q[name] = values[len(values)-1:]
		}
	}
	if name := q.Get("serializer"); q.Has("serializer") && name != "json" {
		return nil, &failure{
			status: http.StatusBadRequest, message: "Requested serializer was not found",
			details: "Could not find a serializer with the name: " + opentsdb.Shown(name),
		}
	}
	at.RawQuery = q.Encode()
	return &at, nil
}

// repeatedParameters returns the parameters that may have several values. The last value counts for all others, as in OpenTSDB.
func repeatedParameters() []string { return []string{"exp", "m", "timeseries", "tsuid", "tsuids"} }

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
		if family := bareFamilies()[first]; family != "" && len(segments) == 1 {
			return "/api/" + family, nil
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
	response := opentsdb.Failure(http.StatusNotFound, "Endpoint not found", "")
	response.Write(w)
}

// WriteError answers an error in OpenTSDB's JSON.
func WriteError(w http.ResponseWriter, r *http.Request, status int, message string) {
	details := ""
	if status == http.StatusMethodNotAllowed {
		message = "Method not allowed"
		details = fmt.Sprintf("The HTTP method [%s] is not permitted for this endpoint", opentsdb.Shown(r.Method))
	}
	response := opentsdb.Failure(status, message, details)
	response.Write(w)
}
