// Package grafana has six Grafana dashboards for a Halite server, the provisioning of the dashboards and the data
// source, and a compose file. The compose file runs Prometheus, Halite and Grafana together.
//
// Each dashboard is one Go file. This command generates the JSON files in dashboards/:
//
//	go generate ./grafana
//
// They use Grafana's Classic schema, which Grafana reads since version 10. Panel.Engine names the storage engine of panels
// whose metrics only one engine has.
//
// The package is data. It connects to no Grafana and no server.
//
// # Invariants
//
//   - The JSON files equal the output of the Go code. A test compares them.
//   - Every panel has a title, a description, a unit, and queries that select job and instance by the variables.
//   - Ids follow the order of the panels, so that the change of a panel makes a small diff.
//
// # Concurrency
//
// The package has no state. All functions are safe for concurrent use.
package grafana

//go:generate go run halite/grafana/generate -dir dashboards
