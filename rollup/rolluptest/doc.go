// Package rolluptest makes random samples and states for the tests of package rollup and of the packages below it, and
// compares states bit by bit. Its functions belong to the goroutine of one test.
package rolluptest
