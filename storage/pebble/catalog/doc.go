// Package catalog has the records of tables: in the LSM tree under table number 0, and as a copy in the file TABLES.
//
// Without its table's record, no row is readable, so each of the two places can replace the other. The store writes the copy
// first, so the copy never has fewer records than the tree.
package catalog
