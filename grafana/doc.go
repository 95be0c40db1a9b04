// Package grafana holds what Grafana needs to show a Halite server: six dashboards, provisioning for them and for the data
// source, and a compose file that runs Prometheus, Halite and Grafana together.
//
// The dashboards are written down here, in Go, one file a dashboard, and generated as JSON into dashboards/:
//
//	go generate ./grafana
//
// They are in Grafana's Classic schema, which every Grafana since 10 reads. Panels that only one storage engine can fill
// say which one (Panel.Engine).
//
// It is data, not a client: it talks to no Grafana and to no server.
//
// # Invariants
//
//   - The JSON files are what the Go code generates; a test compares them.
//   - Every panel has a title, a description, a unit, and queries that select job and instance by the variables.
//   - Ids follow the order of the panels, so that a change of one panel shows as a small difference.
//
// # Concurrency
//
// There is no state: all functions may be called from several goroutines.
package grafana

//go:generate go run halite/grafana/generate -dir dashboards
