// Package landing renders the page at /: what runs here, and how to connect to it.
package landing
