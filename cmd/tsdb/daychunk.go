package main

import (
	"halite/keyschema/daychunk"
	engine "halite/storage/pebble/daychunk"
)

// dayChunkCodec packs the chunks of one series and day. The engine knows only the function.
func dayChunkCodec() *engine.Codec {
	return &engine.Codec{Name: daychunk.Format, Append: daychunk.Append,
		NewDecoder: func() engine.Decoder { return new(daychunk.Decoder) }}
}
