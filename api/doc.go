// Package api is the HTTP side of Halite. It implements Prometheus's HTTP API, remote write and remote read, so that Prometheus
// can send samples here and Grafana can query them.
//
// It turns requests into calls of the small interfaces at the end of options.go, and results into JSON or protobuf. Packages
// ingest, query and storage/index hold samples, evaluate expressions and make writes durable. The command opens listeners and
// reads flags.
//
// Invariants:
//
//   - A write is answered with a 2xx status only after Writer.Write returned without an error, that is, when the
//     samples are durable. Whatever may succeed later is answered 503 with Retry-After, never 429, which a Prometheus
//     answers by dropping the data.
//   - Status codes, error types and the wording of errors equal those in Prometheus 3, because clients branch on them.
//     The differences are listed in docs/api.md and in the comments of the endpoints that have them.
//   - JSON lists are never null.
//   - No body is read past its limit and no size stated by a client is allocated before it was compared with a limit.
//   - A panic in a handler ends its own request only.
//
// A Server is safe for concurrent use; nothing in it changes after New apart from metrics and pooled buffers.
package api
