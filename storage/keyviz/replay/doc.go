// Package replay shows the heat map that a recorded load would have with other row keys. These follow other schema rules, or
// begin with a time or a number.
package replay
