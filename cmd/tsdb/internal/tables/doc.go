// Package tables opens the tables of a server, for the server and for commands that work without it. It selects the engine,
// checks that tables and log belong together, records which server owns tables in Bigtable, and stores the schema rules.
package tables
