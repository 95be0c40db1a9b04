// Package keyschema turns series, hours and samples into row keys, qualifiers and key ranges, and back.
package keyschema
