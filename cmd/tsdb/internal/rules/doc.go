// Package rules evaluates recording and alerting rules with Prometheus's rule manager, and sends alerts with its notifier.
//
// Queries of rules go through the query engine like those of clients, and results through the ordinary write path. So they have
// the same limits, logs and durability.
package rules
