// Package expression holds a PromQL expression with the times of its evaluation. It keeps the parsed text, so that each query
// is parsed once.
package expression
