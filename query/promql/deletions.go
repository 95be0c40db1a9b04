package promql

import (
	"context"

	"halite/storage/tombstone"
)

// deletions are the tombstones that the reads of a batch see: those of the moment at which its head was read, so that a
// deletion is seen as a whole or not at all.
type deletions struct{ view *tombstone.View } // nil if nothing can be deleted

// during runs a read of the head.
func (d *deletions) during(set *tombstone.Set, read func() error) (err error) {
	if set == nil {
		return read()
	}
	d.view, err = set.Read(read)
	return err
}

// context is the one to read the data table with.
func (d *deletions) context(ctx context.Context) context.Context {
	if d.view == nil {
		return ctx
	}
	return d.view.Context(ctx)
}

// current reports whether nothing was deleted since. Asked after the epochs of rows were taken, it says that what is kept
// under these is what the batch has to see: a deletion changes epochs before and after it takes effect.
func (d *deletions) current() bool { return d.view == nil || d.view.Current() }

func (d *deletions) release() {
	if d.view != nil {
		d.view.Release()
		d.view = nil
	}
}
