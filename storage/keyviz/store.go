package keyviz

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"halite/storage"
	"halite/storage/keyviz/heat"
)

const (
	rowPrefix  = "keyviz#"
	rowsEnd    = "keyviz$"
	qualifier  = "column"
	timeDigits = 12
	// applyRows is the number of rows of one write.
	applyRows = 64
)

// columnID names a column of a server.
type columnID struct {
	letter  byte
	startMs int64
}

func (id columnID) row(server string) []byte {
	return fmt.Appendf(nil, "%s%s#%c#%0*d", rowPrefix, server, id.letter, timeDigits, id.startMs/1000)
}

// parseRow is the inverse of row.
func parseRow(key string) (server string, id columnID, ok bool) {
	rest, ok := strings.CutPrefix(key, rowPrefix)
	fields := strings.Split(rest, "#")
	if !ok || len(fields) != 3 || len(fields[1]) != 1 || len(fields[2]) != timeDigits {
		return "", columnID{}, false
	}
	seconds, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || seconds < 0 {
		return "", columnID{}, false
	}
	return fields[0], columnID{fields[1][0], seconds * 1000}, true
}

// levelOf returns the level of a letter, or nil.
func (p *pyramid) levelOf(letter byte) *level {
	for _, l := range p.levels {
		if l.letter == letter {
			return l
		}
	}
	return nil
}

// load reads this server's columns from table meta. It logs and skips unreadable ones, because the heat map is only
// diagnostic.
func (c *Collector) load(ctx context.Context) error {
	nowMs := c.opts.Now().UnixMilli()
	start := rowPrefix + c.opts.Server + "#"
	return c.scan(ctx, start, start[:len(start)-1]+"$", func(_ string, id columnID, l *level, value []byte) {
		if id.startMs >= l.FirstMs(nowMs) {
			s := &stored{}
			l.columns[id.startMs] = s
			c.pyramid.setEncoded(s, slices.Clone(value))
		}
	})
}

// scan calls fn with each valid column whose row lies in a range.
func (c *Collector) scan(
	ctx context.Context, start, end string, fn func(server string, id columnID, l *level, value []byte),
) error {
	it := c.opts.Meta.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{Start: []byte(start), End: []byte(end)}}},
		storage.ReadOptions{Filter: storage.Filter{Families: []string{storage.FamilyMeta}, VersionsMax: 1}})
	for it.Next() {
		row := it.Row()
		server, id, ok := parseRow(string(row.Key))
		l := c.pyramid.levelOf(id.letter)
		if !ok || l == nil || len(row.Cells) != 1 || string(row.Cells[0].Qualifier) != qualifier {
			continue
		}
		column, err := c.pyramid.codec.Parse(row.Cells[0].Value)
		if err != nil || column.StartMs != id.startMs || column.SpanMs != l.SpanMs {
			c.opts.Logger.Warn("skipping an unreadable column of the key heat map", "row", string(row.Key), "err", err)
			continue
		}
		fn(server, id, l, row.Cells[0].Value)
	}
	return errors.Join(it.Err(), it.Close())
}

// store writes the changed columns to table meta and removes the expired ones.
func (c *Collector) store(ctx context.Context, nowMs int64) error {
	c.storing.Lock() // an older column must not overwrite a newer one
	defer c.storing.Unlock()
	muts, written := c.changed(nowMs)
	err := c.apply(ctx, muts)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, s := range written {
			s.dirty = true
		}
	}
	return err
}

// changed returns the mutations of table meta that are due, and marks their columns as stored.
func (c *Collector) changed(nowMs int64) (muts []storage.RowMutation, written []*stored) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pyramid
	for _, id := range p.expire(nowMs) {
		muts = append(muts, storage.RowMutation{
			Key: id.row(c.opts.Server), Entries: []storage.Entry{{Kind: storage.DeleteRow}},
		})
	}
	p.close(len(p.levels)) // the newest column of each level stays open
	p.fold()
	for _, l := range p.levels {
		for startMs, s := range l.columns {
			if !s.dirty {
				continue
			}
			value := s.encoded
			if s.open != nil {
				value = p.codec.Append(nil, s.open)
			}
			muts = append(muts, storage.RowMutation{Key: columnID{l.letter, startMs}.row(c.opts.Server), Entries: []storage.Entry{{
				Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: []byte(qualifier), Value: value,
			}}})
			s.dirty = false
			written = append(written, s)
		}
	}
	return muts, written
}

// others reads the columns that other servers have of a level and time.
func (c *Collector) others(ctx context.Context, l *level, fromMs, toMs int64) (out []*heat.Column, err error) {
	if !c.opts.Shared {
		return nil, nil
	}
	err = c.scan(ctx, rowPrefix, rowsEnd, func(server string, id columnID, at *level, value []byte) {
		if server == c.opts.Server || at.letter != l.letter || id.startMs < fromMs || id.startMs >= toMs {
			return
		}
		if column, err := c.pyramid.codec.Parse(value); err == nil {
			out = append(out, column)
		}
	})
	return out, err
}

// expireOthers removes expired columns of other servers from table meta. A server that never starts again cannot
// remove its own rows.
func (c *Collector) expireOthers(ctx context.Context, nowMs int64) error {
	var muts []storage.RowMutation
	err := c.scan(ctx, rowPrefix, rowsEnd, func(server string, id columnID, l *level, _ []byte) {
		if server != c.opts.Server && id.startMs < l.FirstMs(nowMs) {
			muts = append(muts, storage.RowMutation{Key: id.row(server), Entries: []storage.Entry{{Kind: storage.DeleteRow}}})
		}
	})
	if err != nil {
		return err
	}
	return c.apply(ctx, muts)
}

// apply applies mutations of table meta, some at a time.
func (c *Collector) apply(ctx context.Context, muts []storage.RowMutation) error {
	for some := range slices.Chunk(muts, applyRows) {
		if err := c.opts.Meta.Apply(ctx, some); err != nil {
			return err
		}
	}
	return nil
}
