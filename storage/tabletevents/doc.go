// Package tabletevents keeps the history of splits, merges and moves of tablets in table meta, bounded by age and number.
// Pebble reports its changes with their reasons. Changes of Bigtable are found by comparing two lists of tablets.
package tabletevents
