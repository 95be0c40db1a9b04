// Package opentsdb reads the data points that OpenTSDB's clients write: lines of the telnet protocol, and JSON.
//
// The metric is the label __name__, and tags are labels. Names stay as they are, with dots and dashes. Metric and tags as a line
// has them are the key of a series, so that lines and JSON share the keys.
package opentsdb
