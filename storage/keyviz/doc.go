// Package keyviz records which row keys are hot: how many samples, rows and bytes each range of keys takes and gives in each
// minute. A Collector counts samples where they are accepted and rows where the data table is read and written. It keeps columns
// of a minute, ten minutes and an hour, in memory and in table meta, and makes heat maps of them.
package keyviz
