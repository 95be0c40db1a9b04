package main

import (
	"halite/keyschema/chunk"
	"halite/storage/pebble"
)

// bundleCodec packs the chunks of one series and day. The engine knows only the function.
func bundleCodec() *pebble.BundleCodec {
	return &pebble.BundleCodec{Name: chunk.BundleFormat, Append: chunk.AppendBundle,
		NewSplitter: func() pebble.Splitter { return new(chunk.Splitter) }}
}
