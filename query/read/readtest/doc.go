// Package readtest has a [World] for tests of readers: an index, a head and a data table in memory, and the truth about them.
package readtest
