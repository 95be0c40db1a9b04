// Package daycells encodes the cells of one series and day as one value of the LSM tree. FORMAT.md of package pebble draws it.
//
// A Builder collects cells and encodes them. A Reader decodes hours and qualifiers at once, and values on demand. A Codec
// packs the values, which the engine does not interpret.
package daycells
