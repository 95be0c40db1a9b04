package influx

import (
	"net/http"

	"halite/api/receiver"
)

// Ping answers clients of InfluxDB 1 that check whether the server is up.
func Ping(w http.ResponseWriter, r *http.Request) {
	response := receiver.Response{Status: http.StatusNoContent, Header: versionHeader()}
	if verbose := r.URL.Query().Get("verbose"); verbose != "" && verbose != "0" && verbose != "false" {
		response.Status, response.Type, response.Body = http.StatusOK, "application/json", []byte(`{"version":"`+Version+`"}`)
	}
	response.Write(w)
}

// Health answers clients of InfluxDB 2 that check whether the server accepts writes. Call it only if the server does.
func Health(w http.ResponseWriter, _ *http.Request) {
	response := receiver.Response{Status: http.StatusOK, Type: "application/json", Header: versionHeader(), Body: []byte(
		`{"name":"halite","message":"ready for writes","status":"pass","checks":[],"version":"` + Version + `"}`)}
	response.Write(w)
}

// Ready answers clients of InfluxDB 2 that wait for the server. Call it only if the server accepts writes.
func Ready(w http.ResponseWriter, _ *http.Request) {
	response := receiver.Response{Status: http.StatusOK, Type: "application/json", Header: versionHeader(),
		Body: []byte(`{"status":"ready"}`)}
	response.Write(w)
}
