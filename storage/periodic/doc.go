// Package periodic runs background work repeatedly until a context ends. A [Jobs] runs functions in goroutines; Stop and Wait
// end them.
package periodic
