// Package replay shows the heat map that a recorded load would have with other row keys: with other schema rules, or with
// keys that begin with a time or a number.
package replay
