package ingest

import (
	"errors"
	"fmt"

	"halite/ingest/wal"
	"halite/ingest/wal/record"
	"halite/storage/tombstone"
)

// errDeletionsUnknown: the log has deletions and the ingester was opened without Options.Tombstones.
var errDeletionsUnknown = errors.New("the write-ahead log has deletions, which are not supported here")

// deletion applies a record of a deletion. Samples written before it are in the head by now; those written after it follow in
// the log.
func (p *replay) deletion(payload []byte, pos wal.Position) error {
	d, err := record.ParseDeletion(payload)
	if err != nil {
		return fmt.Errorf("%w at %s", err, pos)
	}
	if p.i.opts.Tombstones == nil {
		return fmt.Errorf("%w, at %s", errDeletionsUnknown, pos)
	}
	for _, log := range d.Refs {
		if ref := p.ref(log); ref != 0 && ref != retiredRef {
			p.deleted = append(p.deleted, ref)
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
	return p.i.deleter.Replay(p.ctx, t, refs)
}

// cleanIndex removes hours from the index that replay touched for deleted samples. Maintenance retries after an error; the
// index lists too many hours until then.
func (p *replay) cleanIndex() error {
	if p.i.opts.Tombstones == nil {
		return nil
	}
	err := p.i.deleter.CleanIndex(p.ctx)
	if err != nil && p.ctx.Err() == nil {
		p.i.opts.Logger.Error("lists of series may show series whose samples were deleted", "err", err)
		return nil
	}
	return err
}
