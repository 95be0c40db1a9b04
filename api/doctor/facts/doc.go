// Package facts collects what package doctor judges. Once a minute it remembers some counters of the server's own
// metrics, the free disk space, and the sizes of the index, in rings of a fixed size. It reads everything else when a
// report is requested.
package facts
