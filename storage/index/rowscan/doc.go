// Package rowscan finds the series and hours of a day in the keys of its rows, for days whose index is damaged or has to be
// verified.
package rowscan
