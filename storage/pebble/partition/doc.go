// Package partition keeps the state of column families and their days in memory. It knows which days have cells, when a day
// was last written, and whether it has day chunks. It also has the row locks of a table, and the gate between reads and
// swaps.
package partition
