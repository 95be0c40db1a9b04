// Package facts collects what package doctor judges. Once a minute it remembers some counters of the server's own metrics,
// the free disk space, and the sizes of the index. Rings of a fixed size hold them. It reads everything else when a report
// is requested.
package facts
