//go:build !nobigtable

package tools

import (
	"fmt"

	"halite/storage/bigtable/emulator"
)

// startEmulator starts a Bigtable in memory. It returns its address, HOST:PORT, and what stops it.
func startEmulator(listenAddress string) (address string, stop func(), err error) {
	server, err := emulator.Start(emulator.Options{ListenAddress: listenAddress})
	if err != nil {
		return "", nil, fmt.Errorf("--listen-address: %w", err)
	}
	return server.Addr(), func() { server.Close() }, nil
}
