// Package client holds the sub-commands that talk to a running server: they draw a query, delete samples, check a configuration
// and load the server.
package client

import "io"

// Commands holds the sub-commands that a function of this package declares, by their full name.
type Commands = map[string]func(w io.Writer) error
