// Package ingesttest has what tests of the write paths share.
package ingesttest
