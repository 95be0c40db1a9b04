//go:build !unix

package main

import "math"

// descriptorLimit returns no limit: this system has none that Go reports.
func descriptorLimit() uint64 { return math.MaxUint64 }
