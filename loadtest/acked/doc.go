// Package acked records which samples of a load a server has acknowledged, in two bits a sample or fewer.
//
// # Concurrency
//
// A Set is safe for concurrent use.
package acked
