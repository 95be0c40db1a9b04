// Package presence describes the hours in which a series has samples.
//
// A day's hours are the low 24 bits of a mask. A [Partition] is the day or month that one segment covers, a [Pattern] the
// hours of a series in it, and a [Window] the hours that a query asks for. Days are unix days and hours unix hours (UTC).
package presence
