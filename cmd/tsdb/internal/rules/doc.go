// Package rules evaluates recording and alerting rules with Prometheus's rule manager, and sends alerts with its notifier.
//
// Queries of rules go through the query engine, and results through the ordinary write path. So they have the limits, logs and
// durability of all queries and writes.
package rules
