// Package batch holds the series of one write request between the parser of a protocol and the writer. It knows neither
// protocols nor storage.
//
// A parser gives each series a key: any bytes that determine the labels, such as the text before the value in an exposition
// format. The writer finds known series by the hash of the key alone. It asks the parser for labels only if a series is new.
package batch
