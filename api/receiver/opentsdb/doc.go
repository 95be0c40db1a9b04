// Package opentsdb reads the data points that OpenTSDB's clients write: lines of the telnet protocol, and JSON.
//
// The metric is the label __name__, and tags are labels. Names do not change: they keep dots and dashes. The key of a series is
// its metric and tags in the form of a line, so that lines and JSON share the keys.
package opentsdb
