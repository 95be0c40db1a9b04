// Command generate writes the dashboards of package grafana as JSON files. Run it with
//
//	go generate ./grafana
//
// It writes nothing else and reads nothing.
package main
