// Package remote knows the wire protocols of Prometheus's remote write 1.0 and 2.0 and remote read: content types, bodies,
// queries, samples and frames. It knows neither the store nor the server's limits; callers pass both.
//
// Prometheus's own handler of remote read is not used. Its package brings service discovery and cloud clients along, 18 MB of
// program, and it cannot break off a stream when the store fails in the middle.
package remote
