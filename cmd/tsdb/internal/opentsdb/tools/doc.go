// Package tools holds the sub-commands of tsdb opentsdb. They take the arguments of OpenTSDB's command line and print its text
// formats. They read from a running server, except translate,
// which rewrites queries.
package tools
