package main

import (
	"context"

	"halite/storage/pebble"
)

// Flush moves the head to the tables. Who asks for that wants the disk at rest: the engine then packs what lies loose,
// in the background, and does not wait for the end of the day.
func (db *database) Flush(ctx context.Context) error {
	if err := db.ingester.Flush(ctx); err != nil {
		return err
	}
	if store, ok := db.tables.(*pebble.Store); ok {
		store.WriteDayChunksSoon()
	}
	return nil
}
