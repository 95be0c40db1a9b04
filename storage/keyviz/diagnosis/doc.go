// Package diagnosis describes in words what a heat map of row keys shows: hot keys, sequential writes, full scans, uneven
// salts, large rows, deletions and gaps.
package diagnosis
