// Package tsuid derives OpenTSDB's identifiers from names, and names the labels of rollups that a client has written.
//
// OpenTSDB gives each metric, tag key and tag value a number, its UID. Here a UID is the 64-bit hash of the name. So it needs
// no table, is equal on every server, and never changes. The UIDs of a series, one after the other, are its tsuid.
package tsuid
