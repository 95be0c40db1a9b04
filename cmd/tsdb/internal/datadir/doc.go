// Package datadir handles the data directory of a server, which --storage.path names. It knows the places of tables and log,
// the lock that keeps other processes out, and the reserve of disk space.
package datadir
