// Package rowscan finds the series and hours of a day in the keys of its rows. The index needs it to rebuild or verify a day.
// A [Scanner] reads keys of data rows, and of rollup rows for series without samples. It writes nothing.
package rowscan
