// Package tsuid derives OpenTSDB's identifiers from names. It also names the labels that mark rollups written by clients.
//
// OpenTSDB gives each metric, tag key and tag value a number, its UID. Here a UID is the 64-bit hash of the name. So it
// needs no table, is equal on every server, and never changes. A tsuid is the concatenation of the UIDs of a series.
package tsuid
