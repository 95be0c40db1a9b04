//go:build !linux

package netlimit

import "net"

// queuedBytes returns -1: this system does not report the queue of a connection.
func queuedBytes(net.Conn) int { return -1 }
