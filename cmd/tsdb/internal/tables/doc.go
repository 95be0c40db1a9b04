// Package tables opens the tables of a server, for the server and for commands that work without it. It knows the engines,
// whose tables and log belong together, which server owns tables in Bigtable, and the schema rules that the tables hold.
package tables
