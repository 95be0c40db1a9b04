// Package index is the series catalogue: which label sets exist, and in which hours they may have samples.
package index
