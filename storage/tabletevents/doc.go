// Package tabletevents keeps the history of splits, merges and moves of tablets in table meta, bounded by age and number.
// Pebble reports its changes with their reasons to [Log.Add]. [Log.Compare] finds changes of Bigtable by comparing two lists
// of tablets. [Log.List] returns the events of all servers.
package tabletevents
