// Package ingesttest has helpers for tests of the write paths.
package ingesttest
