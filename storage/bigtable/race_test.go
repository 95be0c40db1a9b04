//go:build race

package bigtable_test

// slowdown divides the work of long tests under the race detector.
const slowdown = 10
