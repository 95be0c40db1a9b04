package main

import (
	"halite/keyschema/chunk"
	"halite/storage/pebble"
)

// dayChunkCodec packs the chunks of one series and day. The engine knows only the function.
func dayChunkCodec() *pebble.DayChunkCodec {
	return &pebble.DayChunkCodec{Name: chunk.BundleFormat, Append: chunk.AppendBundle,
		NewDecoder: func() pebble.DayChunkDecoder { return new(chunk.Splitter) }}
}
