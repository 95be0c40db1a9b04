// Package tenantlimits bounds the writes of each tenant: samples per second, active series, and its share of the concurrent
// requests. It also counts the samples of each tenant.
package tenantlimits
