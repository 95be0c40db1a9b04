package influx

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
)

// LogIns turns the credentials of an InfluxDB client into values of the header Authorization, in the order to try them.
// It returns nil if only the request's own header counts. InfluxDB 1 takes a user and a password as parameters u and p,
// or as "Token USER:PASSWORD". Clients of InfluxDB 1 that write to InfluxDB 2 send a token as the password of any user.
func LogIns(r *http.Request) []string {
	user, password, ok := r.BasicAuth()
	if header := r.Header.Get("Authorization"); !ok && header != "" {
		scheme, credentials, _ := strings.Cut(header, " ")
		if user, password, ok = strings.Cut(strings.TrimSpace(credentials), ":"); !ok || !strings.EqualFold(scheme, "token") {
			return nil
		}
		return []string{header, basic(user, password)}
	}
	if !ok {
		query := r.URL.Query()
		user, password = query.Get("u"), query.Get("p")
	}
	if password == "" {
		return nil
	}
	return []string{"Token " + password, basic(user, password)}
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// WriteError answers a request that was refused before its protocol was called, in the JSON of InfluxDB 1 or 2.
func WriteError(v2 bool) func(w http.ResponseWriter, r *http.Request, status int, message string) {
	return func(w http.ResponseWriter, _ *http.Request, status int, message string) {
		x := request{v2: v2}
		answer := x.Refuse(status, errors.New(message))
		answer.Write(w)
	}
}
