// Command tsdb is the one binary of Halite.
//
//	tsdb serve     takes Prometheus remote write and answers PromQL
//	tsdb demo      serves a made-up fleet, for a first look
//	tsdb graph     draws a query of a running server in the terminal
//	tsdb inspect   prints keys, rows and log segments readably
//	tsdb version   prints version, commit and Go version
//
// This package holds all flags, picks the storage engine, opens the parts in order and closes them in reverse. It has no
// logic of a database: each file wires one thing.
package main
