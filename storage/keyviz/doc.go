// Package keyviz records which row keys are hot: the samples, rows and bytes written to and read from each range of keys in
// each minute. A Collector counts samples where they are accepted, and rows where the data table is read and written. It
// keeps columns of a minute, ten minutes and an hour, in memory and in table meta. It makes heat maps from them.
package keyviz
