// Package receiver is the common part of all write protocols over HTTP except remote write: the interface of a protocol and the
// decoding of bodies. Each sub-package implements one protocol: it checks and parses requests, and makes the responses. Package
// api reads the bodies, calls the writer, and counts.
package receiver
