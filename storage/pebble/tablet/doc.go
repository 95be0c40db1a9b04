// Package tablet divides a table's rows into contiguous ranges and counts the load of each range. Ranges split when they are
// large or hot, and neighbours join when they are small and cold.
package tablet
