// Package tools holds the sub-commands that need no running server. They print, check, compute, copy and measure the tables of a
// stopped server or of a snapshot, plan a load, and run a Bigtable emulator in memory.
package tools

import "io"

// Commands holds the sub-commands that a function of this package declares, by their full name.
type Commands = map[string]func(w io.Writer) error
