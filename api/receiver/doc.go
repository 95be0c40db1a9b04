// Package receiver is what all ways to write over HTTP share besides remote write: the interface of a protocol and the decoding
// of bodies. Its sub-packages each know one protocol: how a request is checked and parsed, and what its answers look like.
// Package api reads the bodies, calls the writer, and counts.
package receiver
