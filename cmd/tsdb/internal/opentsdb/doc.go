// Package opentsdb opens the address of OpenTSDB's clients: its flags, its listener, and the servers of telnet and HTTP.
package opentsdb
