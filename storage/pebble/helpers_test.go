package pebble_test

import (
	"bytes"
	"slices"

	"halite/storage"
)

func sortMutations(muts []storage.RowMutation) {
	slices.SortFunc(muts, func(a, b storage.RowMutation) int { return bytes.Compare(a.Key, b.Key) })
}
