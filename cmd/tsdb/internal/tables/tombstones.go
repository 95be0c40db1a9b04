package tables

import (
	"context"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/tombstone"
)

// OpenTombstones reads the deletions in opts.Store. It returns the deletions and a store whose reads hide deleted samples.
func OpenTombstones(ctx context.Context, opts tombstone.Options) (*tombstone.Set, storage.Store, error) {
	store := opts.Store
	set, err := tombstone.Open(ctx, opts)
	if err != nil {
		return nil, store, err
	}
	set.SetLabelSets(func(ctx context.Context, _, hash string) ([]keyschema.Tag, error) {
		meta, err := store.Table(ctx, storage.TableMeta)
		if err != nil {
			return nil, err
		}
		return index.StoredLabelSet(ctx, meta, hash)
	})
	return set, set.Store(), nil
}
