// Package netlimit protects an HTTP server from its clients. It bounds the number of connections and the time that a client may
// keep one waiting, and refuses requests that name a foreign host.
//
// A Limiter wraps listeners and makes the http.Server for them. A HostCheck is a handler in front of all others.
package netlimit
