// Package reference runs Prometheus' own HTTP API beside this repository's and compares their answers, request by
// request. It is a module of its own because Prometheus' API depends on modules that the database does not need.
//
//	cd api/testdata/reference && go test .
//
// With -args -record it writes Prometheus' answers to ../prometheus.json, against which package api's own tests compare.
package reference
