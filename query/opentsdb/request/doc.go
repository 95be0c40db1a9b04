// Package request parses OpenTSDB's queries: the parameters of a URL, the JSON of a body, and the small languages inside
// them for metrics, filters, rates, downsampling and times.
//
// A [Parser] turns either form into a [Query] that is checked and has its defaults. Errors have OpenTSDB's text if
// OpenTSDB has one. The package does no I/O. For times such as 1h-ago, the parser reads the clock in its options.
package request
