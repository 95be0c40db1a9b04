// Package catalog has the records of tables: in the LSM tree under table number 0, and as a copy in the file TABLES.
//
// No row can be found without its table's record, so each of the two places can replace the other. The store writes the copy
// first, so the copy never has less than the tree.
package catalog
