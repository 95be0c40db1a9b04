// Package telnet serves OpenTSDB's telnet protocol, and tells it from HTTP on the same port by the first byte.
//
// A connection is served by one goroutine. It writes all data points that have arrived as one request, so that many lines share
// one wait for the log. While the writer has no room, it does not read, so the sender waits as well.
package telnet
