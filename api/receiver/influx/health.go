package influx

import (
	"net/http"

	"halite/api/receiver"
)

// Ping answers clients of InfluxDB 1 that check whether the server is up.
func Ping(w http.ResponseWriter, r *http.Request) {
	answer := receiver.Answer{Status: http.StatusNoContent, Header: versionHeader()}
	if verbose := r.URL.Query().Get("verbose"); verbose != "" && verbose != "0" && verbose != "false" {
		answer.Status, answer.Type, answer.Body = http.StatusOK, "application/json", []byte(`{"version":"`+Version+`"}`)
	}
	answer.Write(w)
}

// Health answers clients of InfluxDB 2 that check whether the server accepts writes. Call it only if the server does.
func Health(w http.ResponseWriter, _ *http.Request) {
	answer := receiver.Answer{Status: http.StatusOK, Type: "application/json", Header: versionHeader(), Body: []byte(
		`{"name":"halite","message":"ready for writes","status":"pass","checks":[],"version":"` + Version + `"}`)}
	answer.Write(w)
}

// Ready answers clients of InfluxDB 2 that wait for the server. Call it only if the server accepts writes.
func Ready(w http.ResponseWriter, _ *http.Request) {
	answer := receiver.Answer{Status: http.StatusOK, Type: "application/json", Header: versionHeader(),
		Body: []byte(`{"status":"ready"}`)}
	answer.Write(w)
}
