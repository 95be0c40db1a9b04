// Package chunktest makes samples for the tests of the chunk codecs: random ones, a mix of series, and a fleet of hosts.
package chunktest

const hourMs = 3_600_000
