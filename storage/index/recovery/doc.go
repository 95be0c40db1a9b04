// Package recovery brings the memory of an index up to date with its tables: at start, beside damage, after other processes have
// written, and from the data rows. It also compares the index with the data rows.
package recovery
