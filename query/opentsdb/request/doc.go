// Package request parses OpenTSDB's queries. They are the parameters of a URL or the JSON of a body. It also parses the
// small languages inside them for metrics, filters, rates, downsampling and times.
//
// A [Parser] turns either form into a [Query] that is checked and has its defaults. Errors have OpenTSDB's text if
// OpenTSDB has one. The package does no I/O. For times such as 1h-ago, the parser reads the clock in its options.
package request
