// Package readtest makes an index, a head and a data table in memory, to test readers with.
package readtest
