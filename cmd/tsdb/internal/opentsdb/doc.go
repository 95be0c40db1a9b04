// Package opentsdb opens the address of OpenTSDB's clients: its flags, its listener, and what serves it.
package opentsdb
