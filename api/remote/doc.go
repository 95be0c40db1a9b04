// Package remote implements the wire protocols of Prometheus's remote write 1.0 and 2.0 and remote read: content types, bodies,
// queries, samples and frames. Callers pass limits and read the store.
//
// Prometheus's own handler of remote read is not used, for two reasons. Its package imports service discovery and cloud clients,
// 18 MB of program. And it cannot break off a stream when the store fails in the middle.
package remote
