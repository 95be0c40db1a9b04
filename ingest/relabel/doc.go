// Package relabel applies Prometheus's relabelling to incoming series of any protocol.
//
// Rules cache their result for each series, by the hash of the labels as sent. So they cost nothing for a known series. The
// result is the stored series, or a mark that the rules drop the series. New rules begin with an empty cache.
//
// With a tracker of HA pairs (ingest/hatracker), each known series has the tag of the replica that sends it.
package relabel
