// Package expression holds what a query asks: the text of a PromQL expression, the times at which it is evaluated, and the
// parsed text, so that each query is parsed once.
package expression
