// Command tsdb is the only binary of Halite.
//
//	tsdb serve     accepts Prometheus remote write and answers PromQL
//	tsdb demo      serves a simulated fleet, for a first look
//	tsdb graph     draws a query of a running server in the terminal
//	tsdb inspect   prints keys, rows and log segments as text
//	tsdb version   prints version, commit and Go version
//
// This package holds the flags of the server, opens its parts in order and closes them in reverse. storageflags.go and
// config.go hold the flags, open.go opens the parts, and serve.go runs them. Packages below internal hold the other
// sub-commands and open the tables.
package main
