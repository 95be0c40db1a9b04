// Package telnet serves OpenTSDB's telnet protocol. By the first byte it distinguishes telnet from HTTP on the same port.
//
// One goroutine serves a connection. It writes all received data points as one request, so that many lines share one wait for the
// log. While the writer is overloaded, it does not read from the connection, so the sender waits as well.
package telnet
