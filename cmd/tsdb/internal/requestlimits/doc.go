// Package requestlimits declares the flags that bound connections, requests and slow clients of the HTTP server.
package requestlimits
