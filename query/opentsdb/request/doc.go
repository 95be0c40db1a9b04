// Package request parses OpenTSDB's queries: the parameters of a URL, the JSON of a body, and the small languages inside of
// them for metrics, filters, rates, downsampling and times.
//
// A [Parser] turns either form into a [Query] that is checked and has its defaults. Errors have OpenTSDB's words where it has
// some. The package does no I/O; the parser reads the clock that it is given, for times such as 1h-ago.
package request
