// Package exposition receives what programs expose for Prometheus: the text format, OpenMetrics, and Prometheus's protobuf
// format. Clients post it to the path of an import, or as to a Pushgateway.
//
// Prometheus's own parser reads the body, so all that a scrape accepts is accepted here.
package exposition
