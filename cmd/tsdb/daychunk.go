package main

import (
	"halite/keyschema/chunk"
	"halite/storage/pebble/daychunk"
)

// dayChunkCodec packs the chunks of one series and day. The engine knows only the function.
func dayChunkCodec() *daychunk.Codec {
	return &daychunk.Codec{Name: chunk.BundleFormat, Append: chunk.AppendBundle,
		NewDecoder: func() daychunk.Decoder { return new(chunk.Splitter) }}
}
