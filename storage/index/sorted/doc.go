// Package sorted merges sorted slices.
package sorted
