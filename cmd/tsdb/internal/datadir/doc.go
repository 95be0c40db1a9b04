// Package datadir knows the data directory of a server, which --storage.path names: where tables and log are, the lock that
// keeps other processes out, and the reserve of disk space.
package datadir
