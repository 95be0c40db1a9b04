// Package batchtest has helpers for tests of the parsers that fill a batch.
package batchtest
