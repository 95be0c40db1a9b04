// Package tenantlimits bounds what each tenant writes: samples per second, active series, and its share of the requests at once.
// It counts the samples of each tenant.
package tenantlimits
