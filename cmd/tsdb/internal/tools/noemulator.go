//go:build nobigtable

package tools

import "halite/cmd/tsdb/internal/tables"

// startEmulator refuses, because this build has no Bigtable.
func startEmulator(string) (address string, stop func(), err error) {
	return "", nil, tables.ErrNoBigtable
}
