// Package rules describes the groups, rules, alerts and Alertmanagers of a rule manager in the JSON of Prometheus.
package rules
