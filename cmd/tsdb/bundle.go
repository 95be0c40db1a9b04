package main

import (
	"halite/keyschema/run"
	"halite/storage/pebble"
)

// bundleCodec packs the runs of a series' closed day; the engine itself knows nothing of runs.
func bundleCodec() *pebble.BundleCodec {
	return &pebble.BundleCodec{Name: run.BundleFormat, Former: []string{run.BundleFormat1}, Append: run.AppendBundle,
		NewSplitter: func() pebble.Splitter { return new(run.Splitter) }}
}
