package document

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"halite/storage"
)

const (
	// Version is the last version of documents that this build knows.
	Version = 1
	// BytesMax bounds a document unless its Cell says otherwise.
	BytesMax = 1 << 20
	// rowShownMax is how much of a row key an error shows.
	rowShownMax = 128
)

// Cell is the place of a document in table meta.
type Cell struct {
	Row, Qualifier string
	// BytesMax bounds the document, in bytes, when it is read and when it is written; 0 means BytesMax.
	BytesMax int
	// Mend says in errors what can be done about a document that cannot be read; "" says nothing.
	Mend string
}

// String names the cell as errors do.
func (c Cell) String() string {
	return fmt.Sprintf("table %s, row %.*q, qualifier %q", storage.TableMeta, rowShownMax, c.Row, c.Qualifier)
}

// Fault wraps what is wrong with the document, as storage.ErrCorrupt.
func (c Cell) Fault(why error) error {
	if c.Mend != "" {
		return fmt.Errorf("%w: %s: %w; %s", storage.ErrCorrupt, c, why, c.Mend)
	}
	return fmt.Errorf("%w: %s: %w", storage.ErrCorrupt, c, why)
}

// Decode parses a document. The error wraps storage.ErrCorrupt if it is none, or too large; and storage.ErrSchemaMismatch if
// it is of a later version.
func (c Cell) Decode(value []byte, into any) error {
	if bytesMax := cmp.Or(c.BytesMax, BytesMax); len(value) > bytesMax {
		return c.Fault(fmt.Errorf("%d bytes, the most is %d", len(value), bytesMax))
	}
	if text := bytes.TrimLeft(value, " \t\r\n"); len(text) > 0 && text[0] == '{' {
		var of struct {
			Version int64 `json:"version"`
		}
		if err := json.Unmarshal(value, &of); err != nil {
			return c.Fault(err)
		}
		if of.Version < 0 {
			return c.Fault(fmt.Errorf("version %d", of.Version))
		}
		if of.Version > Version {
			return fmt.Errorf("%w: %s: version %d of the document, the last one that this build knows is %d: use the build that wrote "+
				"it, or a later one", storage.ErrSchemaMismatch, c, of.Version, Version)
		}
	}
	if err := json.Unmarshal(value, into); err != nil {
		return c.Fault(err)
	}
	return nil
}

// Read reads the document from the table; found is false if the cell is not there. Errors are those of Decode and of the
// read.
func (c Cell) Read(ctx context.Context, meta storage.Table, into any) (found bool, err error) {
	it := meta.ReadRows(ctx, storage.RowSet{Keys: [][]byte{[]byte(c.Row)}}, storage.ReadOptions{Filter: storage.Filter{
		Families: []string{storage.FamilyMeta}, QualifierStart: []byte(c.Qualifier), QualifierEnd: []byte(c.Qualifier + "\x00"),
		VersionsMax: 1,
	}})
	for it.Next() {
		for _, cell := range it.Row().Cells {
			found, err = true, c.Decode(cell.Value, into)
		}
	}
	if failed := errors.Join(it.Err(), it.Close()); failed != nil {
		return false, fmt.Errorf("read %s: %w", c, failed)
	}
	return found, err
}

// Entry is the part of a mutation that writes a document. One that is larger than what is read is an error.
func (c Cell) Entry(content any) (storage.Entry, error) {
	value, err := json.Marshal(content)
	if err != nil {
		return storage.Entry{}, fmt.Errorf("encode the document of %s: %w", c, err)
	}
	if bytesMax := cmp.Or(c.BytesMax, BytesMax); len(value) > bytesMax {
		return storage.Entry{}, fmt.Errorf("%w: %s: a document of %d bytes, the most is %d", storage.ErrBadMutation, c, len(value),
			bytesMax)
	}
	return storage.Entry{
		Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: []byte(c.Qualifier), Value: value,
	}, nil
}

// Write writes the document; it is durable after the store's next Sync.
func (c Cell) Write(ctx context.Context, meta storage.Table, content any) error {
	e, err := c.Entry(content)
	if err != nil {
		return err
	}
	if err := meta.Apply(ctx, []storage.RowMutation{{Key: []byte(c.Row), Entries: []storage.Entry{e}}}); err != nil {
		return fmt.Errorf("write %s: %w", c, err)
	}
	return nil
}
