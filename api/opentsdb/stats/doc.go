// Package stats converts the server's own metrics into the data points of OpenTSDB's stats.
package stats
