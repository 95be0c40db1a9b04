// Package reference runs Prometheus's own HTTP API and this repository's and compares their responses, request by
// request. It is a module of its own because Prometheus' API depends on modules that the database does not need.
//
//	cd api/testdata/reference && go test .
//
// With -args -record it writes Prometheus' responses to ../prometheus.json, against which package api's own tests compare.
package reference
