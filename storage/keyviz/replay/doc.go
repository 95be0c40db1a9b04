// Package replay shows the heat map that a recorded load would have under other row keys: under other schema rules, or under keys
// that begin with a time or a number.
package replay
