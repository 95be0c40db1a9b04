// Package tools holds the sub-commands that need no running server. They print, check, compute, copy and measure the tables
// of a stopped server or of a snapshot. They also plan a load, and run a Bigtable emulator in memory.
package tools
