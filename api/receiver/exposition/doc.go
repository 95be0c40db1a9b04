// Package exposition receives the exposition formats: the text format, OpenMetrics, and Prometheus's protobuf format. Clients
// post them to the path of an import, or to the paths of a Pushgateway.
//
// Prometheus's own parser reads the body, so it accepts everything that a scrape accepts.
package exposition
