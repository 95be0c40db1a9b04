package ingest

import (
	"errors"
	"fmt"

	"halite/ingest/wal"
	"halite/ingest/wal/record"
	"halite/storage/index"
	"halite/storage/tombstone"
)

// errDeletionsUnknown: the log has deletions and the ingester was opened without Options.Tombstones.
var errDeletionsUnknown = errors.New("the write-ahead log has deletions, which are not supported here")

// deletion takes up a record of a deletion. What was written before it is in the head by now, what was written after it
// follows in the log.
func (p *replay) deletion(payload []byte, pos wal.Position) error {
	d, err := record.ParseDeletion(payload)
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
	if err := p.endRelief(); err != nil { // a deletion waits for flushes
		return err
	}
	t, err := tombstone.Parse(d.Tombstone)
	if err != nil {
		return fmt.Errorf("%w at %s", err, pos)
	}
	return p.delete(set, t, refs)
}

// delete carries out a deletion once more, under a new run number. A replay that lacks memory flushes samples that a later
// record deletes, under numbers above the old one; a killed replay may have done that as well, so nobody can tell whether it
// happened. The log still has every sample that was written after the deletion, so the tombstone may hide all that is in
// the table now.
func (p *replay) delete(set *tombstone.Set, t *tombstone.Tombstone, refs []index.Ref) (err error) {
	if t.Seq, err = p.i.sequence.Take(p.ctx, 1); err != nil {
		return err
	}
	removal, err := p.i.opts.Index.StartRemoval()
	if err != nil {
		return err
	}
	defer removal.Close()
	return p.i.announce(t, func() error {
		t.Pending = true
		if err := set.Add(t, func() error { return p.i.deleteInHead(t, refs, removal, func() error { return nil }) }); err != nil {
			return err
		}
		set.Confirm(t.ID) // the log has it
		return nil
	})
}

// settle removes hours from the catalogue that replay touched for samples that were deleted. Maintenance retries after an
// error; the catalogue shows too many hours until then.
func (p *replay) settle() error {
	err := p.i.settlePending(p.ctx)
	if err != nil && p.ctx.Err() == nil {
		p.i.opts.Logger.Error("series and labels may show that have no samples any more", "err", err)
		return nil
	}
	return err
}
