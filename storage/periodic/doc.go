// Package periodic lets background work sleep and repeat until a context ends.
package periodic
