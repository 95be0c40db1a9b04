// Package csv reads and writes samples as rows of comma-separated values. Columns are described as in VictoriaMetrics, or by a
// header that names labels, __timestamp__ and __value__.
package csv
