// Package presence describes the hours in which a series has samples.
//
// A day's hours are the low 24 bits of a mask. A [Partition] is the day or month that one segment covers. A [Pattern] has
// the hours of a series in it. A [Window] has the hours that a query needs. Days are unix days and hours unix hours
// (UTC).
package presence
