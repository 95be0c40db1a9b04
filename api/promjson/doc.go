// Package promjson writes the JSON of Prometheus's HTTP API: results of queries, label sets, expression trees and the
// envelope of errors.
//
// The text equals Prometheus's, byte for byte. Tests compare it with Prometheus's own functions. A range query may
// return millions of points, so the package writes points without encoding/json. floattext.go writes the shortest text
// of a float64. timetext.go formats each time once for all series of a matrix.
//
// A Writer serves one response and one goroutine.
package promjson
