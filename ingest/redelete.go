package ingest

import (
	"errors"
	"fmt"

	"halite/ingest/wal"
	"halite/storage/index"
	"halite/storage/tombstone"
)

// errDeletionsUnknown: the log has deletions and the ingester was opened without Options.Tombstones.
var errDeletionsUnknown = errors.New("the write-ahead log has deletions, which are not supported here")

// deletion takes up a record of a deletion. What was written before it is in the head by now, what was written after it
// follows in the log.
func (p *replay) deletion(payload []byte, pos wal.Position) error {
	d, err := wal.ParseDeletion(payload)
	if err != nil {
		return fmt.Errorf("%w at %s", err, pos)
	}
	set := p.i.opts.Tombstones
	if set == nil {
		return fmt.Errorf("%w, at %s", errDeletionsUnknown, pos)
	}
	for _, log := range d.Refs {
		if ref := p.ref(log); ref != 0 && ref != retiredRef {
			p.deleted = append(p.deleted, index.Ref(ref))
		}
	}
	if !d.Last {
		return nil
	}
	refs := p.deleted
	p.deleted = nil
	t, err := tombstone.Parse(d.Tombstone)
	if err != nil {
		return fmt.Errorf("%w at %s", err, pos)
	}
	return p.delete(set, t, refs)
}

// delete carries out a deletion once more.
func (p *replay) delete(set *tombstone.Set, t *tombstone.Tombstone, refs []index.Ref) (err error) {
	known := set.Find(t.ID)
	switch {
	case p.flushed:
		// For want of memory samples that were deleted went to the table once more, above the tombstone's number. All that
		// was written later is still to come from the log, so that it may hide all that is in the table now.
		if t.Seq, err = p.i.sequence.take(p.ctx, 1); err != nil {
			return err
		}
	case known != nil:
		t.Seq = known.Seq
	}
	removal, err := p.i.opts.Index.StartRemoval()
	if err != nil {
		return err
	}
	defer removal.Close()
	cut := func() error { return p.i.deleteInHead(t, refs, removal, func() error { return nil }) }
	return p.i.announce(t, func() error {
		if known == nil && !p.flushed && t.ID < set.NextID() { // its rows were cleaned
			p.cleaned = append(p.cleaned, t)
			return cut()
		}
		t.Pending = true
		if err := set.Add(t, cut); err != nil {
			return err
		}
		set.Confirm(t.ID) // the log has it
		return nil
	})
}

// settle takes hours out of the catalogue into which replay has put them for samples that were deleted. What cannot be done
// now waits for maintenance: the catalogue is too wide until then.
func (p *replay) settle() error {
	err := p.i.settlePending(p.ctx)
	for _, t := range p.cleaned {
		err = errors.Join(err, p.i.settleAnew(p.ctx, t))
	}
	if err != nil && p.ctx.Err() == nil {
		p.i.opts.Logger.Error("series and labels may show that have no samples any more", "err", err)
		return nil
	}
	return err
}
