// Package record encodes and decodes the records that ingest writes to the write-ahead log: series, samples of all kinds,
// metadata and deletions. A record is the payload of one frame; package wal moves payloads and does not look into them.
// FORMAT.md of package wal draws every byte.
//
// Encoders append to a slice. Parsers check every length before they allocate; [ErrMalformed] reports what does not parse.
package record
