// Package api is the HTTP side of Halite. It implements Prometheus's HTTP API, remote write and remote read, so that Prometheus
// can send samples here and Grafana can query them.
//
// It turns requests into calls of the small interfaces at the end of options.go, and results into JSON or protobuf. Packages
// ingest, query and storage/index make writes durable, evaluate expressions and find series. The command opens listeners and
// reads flags.
//
// Invariants:
//
//   - A write gets a 2xx status only after Writer.Write has returned without an error, that is, when the samples are
//     durable. An error that a retry may solve is 503 with Retry-After, never 429, because Prometheus drops the data on 429.
//   - Status codes, error types and error texts equal the ones of Prometheus 3, because clients branch on them.
//     docs/api.md and the comments of the endpoints list the differences.
//   - JSON lists are never null.
//   - No body is read past its limit. A size from a client is compared with a limit before it is allocated.
//   - A panic in a handler ends only its own request.
//
// A Server is safe for concurrent use; nothing in it changes after New apart from metrics and pooled buffers.
package api
