// Package client holds the sub-commands that talk to a running server: they draw a query, delete samples, check a configuration
// and load the server.
package client
