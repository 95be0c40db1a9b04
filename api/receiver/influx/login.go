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

// WriteErrorV1 responds to a request that was refused before its protocol was called, in the JSON of InfluxDB 1.
func WriteErrorV1(w http.ResponseWriter, _ *http.Request, status int, message string) {
	response := (&request{}).Refuse(status, errors.New(message))
	response.Write(w)
}

// WriteErrorV2 is WriteErrorV1 in the JSON of InfluxDB 2.
func WriteErrorV2(w http.ResponseWriter, _ *http.Request, status int, message string) {
	response := (&request{v2: true}).Refuse(status, errors.New(message))
	response.Write(w)
}
