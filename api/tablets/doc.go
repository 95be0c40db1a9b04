// Package tablets answers /api/v1/status/tablets: the tablets of all tables, the load of the data table's tablets in a time, and
// the history of splits and merges.
package tablets
