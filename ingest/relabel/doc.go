// Package relabel applies Prometheus's relabelling to series as they come in, whatever their protocol.
//
// Rules remember what they made of each series, by the hash of its labels as they were sent. So they cost nothing for a known
// series. The series that is stored may have other labels, or the rules may drop it. New rules begin with an empty memory.
//
// With a tracker of HA pairs (ingest/hatracker), each known series has the tag of the replica that sends it.
package relabel
