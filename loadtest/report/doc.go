// Package report holds the outcome of load tests and writes it as text. Its types are also the JSON form of reports.
//
// # Concurrency
//
// Reports are plain data; one goroutine at a time may change them.
package report
