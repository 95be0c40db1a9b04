// Package client talks to a server under test: it posts remote-write 1.0 requests, queries Prometheus's HTTP API, and reads
// samples back by remote read.
//
// # Invariants
//
//   - A write request counts as acknowledged only if its response was 2xx.
//   - Every response is bounded in size before it is read or decompressed.
//
// # Concurrency
//
// Writer and Querier are safe for concurrent use.
package client
