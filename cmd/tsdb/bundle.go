package main

import (
	"halite/keyschema/chunk"
	"halite/storage/pebble"
)

// bundleCodec packs the runs of a series' closed day; the engine itself knows nothing of runs.
func bundleCodec() *pebble.BundleCodec {
	return &pebble.BundleCodec{Name: chunk.BundleFormat, Former: []string{chunk.BundleFormat1}, Append: chunk.AppendBundle,
		NewSplitter: func() pebble.Splitter { return new(chunk.Splitter) }}
}
