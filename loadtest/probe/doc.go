// Package probe queries a server during a load: dashboard queries at a rate, and how soon an acknowledged sample is
// visible to queries.
//
// # Concurrency
//
// The Run methods block until their context ends. Call Report after Run has returned.
package probe
