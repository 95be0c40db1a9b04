package jsoncell

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
	// Version is the newest document version that this build reads.
	Version = 1
	// BytesMax is the default size limit of a document, in bytes.
	BytesMax = 1 << 20
	// rowShownMax is the number of bytes of a row key that an error shows.
	rowShownMax = 128
)

// Cell addresses a document in table meta.
type Cell struct {
	Row, Qualifier string
	// BytesMax bounds the document, in bytes, on reads and writes. 0 means the constant BytesMax.
	BytesMax int
	// Remedy ends the error about an unreadable document with advice for the operator. "" adds nothing.
	Remedy string
}

// String names the cell in the form that errors use.
func (c Cell) String() string {
	return fmt.Sprintf("table %s, row %.*q, qualifier %q", storage.TableMeta, rowShownMax, c.Row, c.Qualifier)
}

// Corrupt returns an error that names the cell and wraps storage.ErrCorrupt and why.
func (c Cell) Corrupt(why error) error {
	if c.Remedy != "" {
		return fmt.Errorf("%w: %s: %w; %s", storage.ErrCorrupt, c, why, c.Remedy)
	}
	return fmt.Errorf("%w: %s: %w", storage.ErrCorrupt, c, why)
}

// Decode parses value into the variable that into points to. The error wraps storage.ErrCorrupt if value is not a
// document or is too large, and storage.ErrSchemaMismatch if the document has a newer version.
func (c Cell) Decode(value []byte, into any) error {
	if bytesMax := cmp.Or(c.BytesMax, BytesMax); len(value) > bytesMax {
		return c.Corrupt(fmt.Errorf("%d bytes, at most %d are allowed", len(value), bytesMax))
	}
	if text := bytes.TrimLeft(value, " \t\r\n"); len(text) > 0 && text[0] == '{' {
		var header struct {
			Version int64 `json:"version"`
		}
		if err := json.Unmarshal(value, &header); err != nil {
			return c.Corrupt(err)
		}
		if header.Version < 0 {
			return c.Corrupt(fmt.Errorf("version %d", header.Version))
		}
		if header.Version > Version {
			return fmt.Errorf("%w: %s: the document has version %d, this build reads up to %d: use the build that wrote it or a "+
				"newer one", storage.ErrSchemaMismatch, c, header.Version, Version)
		}
	}
	if err := json.Unmarshal(value, into); err != nil {
		return c.Corrupt(err)
	}
	return nil
}

// Read decodes the document in table meta into the variable that into points to. found is false if the cell does not
// exist. It returns the errors of Decode and of the read.
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

// Entry returns the mutation entry that writes the document. It fails if the document is too large for Read.
func (c Cell) Entry(content any) (storage.Entry, error) {
	value, err := json.Marshal(content)
	if err != nil {
		return storage.Entry{}, fmt.Errorf("encode the document of %s: %w", c, err)
	}
	if bytesMax := cmp.Or(c.BytesMax, BytesMax); len(value) > bytesMax {
		return storage.Entry{}, fmt.Errorf("%w: %s: a document of %d bytes, at most %d are allowed",
			storage.ErrBadMutation, c, len(value), bytesMax)
	}
	return storage.Entry{
		Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: []byte(c.Qualifier), Value: value,
	}, nil
}

// Write writes the document. It is durable after the next Sync of the store.
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
