package tools

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"halite/cmd/tsdb/internal/backup"
	"halite/cmd/tsdb/internal/datadir"
	"halite/storage"
)

const (
	migrationVersion = 1
	// copyBatchRows and copyBatchEntries bound a batch in addition to its bytes.
	copyBatchRows    = 20_000
	copyBatchEntries = storage.EntriesMax / 2
	// copyPartBytes bounds one mutation. A larger row takes several.
	copyPartBytes = storage.RowMutationBytesMax / 2
	progressEvery = 5 * time.Second
)

// migration copies all tables from one store to another one and compares them.
type migration struct {
	from, to   storage.Store
	out        io.Writer
	batchBytes int
	file       string
	state      migrationState

	began    time.Time
	reported time.Time
	startAt  int64 // rows that an earlier run copied
	verified *backup.Progress
}

// migrationState is the checkpoint file. Rows up to Last of Table are in the destination, and durable.
type migrationState struct {
	Version  int      `json:"version"`
	From     string   `json:"from"`
	To       string   `json:"to"`
	Finished []string `json:"finished"`
	Table    string   `json:"table,omitempty"`
	Last     []byte   `json:"last,omitempty"`
	Rows     int64    `json:"rows"`
	Bytes    int64    `json:"bytes"`
}

// copyAll copies the rows after the checkpoint. Without a checkpoint the destination must be empty.
func (m *migration) copyAll(ctx context.Context) error {
	resumed, err := m.readState()
	if err != nil {
		return err
	}
	schemas, err := m.from.Tables(ctx)
	if err != nil {
		return err
	}
	if len(schemas) == 0 {
		return fmt.Errorf("%s holds no tables", m.state.From)
	}
	if !resumed {
		if err := m.wantEmpty(ctx); err != nil {
			return err
		}
	}
	m.began, m.startAt = time.Now(), m.state.Rows
	for _, schema := range schemas {
		if slices.Contains(m.state.Finished, schema.Name) {
			continue
		}
		if m.state.Table != schema.Name {
			m.state.Table, m.state.Last = schema.Name, nil
		}
		if err := m.copyTable(ctx, schema); err != nil {
			return fmt.Errorf("copy table %s: %w", schema.Name, err)
		}
		m.state.Finished, m.state.Table, m.state.Last = append(m.state.Finished, schema.Name), "", nil
		if err := m.writeState(); err != nil {
			return err
		}
		m.progress(schema.Name, nil, true)
	}
	return nil
}

func (m *migration) readState() (found bool, err error) {
	src, err := os.ReadFile(m.file)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s, err := parseMigrationState(src)
	if err != nil {
		return false, fmt.Errorf("%s is not a checkpoint: %w: delete it, empty the destination and start again", m.file, err)
	}
	if s.From != m.state.From || s.To != m.state.To {
		return false, fmt.Errorf("%s belongs to a migration from %s to %s: finish that one, or name another --checkpoint", m.file,
			s.From, s.To)
	}
	m.state = s
	fmt.Fprintf(m.out, "Continuing after %d rows: finished %v, in %q.\n", s.Rows, s.Finished, s.Table)
	return true, nil
}

func parseMigrationState(src []byte) (s migrationState, err error) {
	if err := json.Unmarshal(src, &s); err != nil {
		return s, err
	}
	switch {
	case s.Version != migrationVersion:
		err = fmt.Errorf("version %d, this build knows %d", s.Version, migrationVersion)
	case s.Rows < 0 || s.Bytes < 0:
		err = fmt.Errorf("%d rows of %d bytes", s.Rows, s.Bytes)
	case len(s.Last) > storage.KeyBytesMax || len(s.Last) > 0 && s.Table == "":
		err = fmt.Errorf("a last key of %d bytes in table %q", len(s.Last), s.Table)
	}
	return s, err
}

func (m *migration) writeState() error {
	src, err := json.Marshal(m.state)
	if err != nil {
		return err
	}
	return datadir.WriteFile(m.file, append(src, '\n'))
}

// wantEmpty refuses a destination that holds rows, because they would mix with the copied rows.
func (m *migration) wantEmpty(ctx context.Context) error {
	schemas, err := m.to.Tables(ctx)
	if err != nil {
		return err
	}
	for _, schema := range schemas {
		table, err := m.to.Table(ctx, schema.Name)
		if err != nil {
			return err
		}
		some, err := storage.HasRow(ctx, table, storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.Filter{})
		if err != nil {
			return err
		}
		if some {
			return fmt.Errorf("table %s of %s is not empty: a migration needs an empty destination", schema.Name, m.state.To)
		}
	}
	return nil
}

// copyTable copies the rows after the checkpoint.
func (m *migration) copyTable(ctx context.Context, schema storage.TableSchema) error {
	from, err := m.from.Table(ctx, schema.Name)
	if err != nil {
		return err
	}
	to, err := m.to.EnsureTable(ctx, schema)
	if err != nil {
		return err
	}
	start := m.state.Last
	if len(start) > 0 {
		start = append(bytes.Clone(start), 0)
	}
	b := &copyBatch{m: m, to: to, schema: schema}
	b.plain = !slices.ContainsFunc(schema.Families, func(f storage.Family) bool { return f.Kind != storage.Plain })
	it := from.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{Start: start}}}, storage.ReadOptions{})
	defer it.Close()
	for it.Next() {
		if err := b.add(ctx, it.Row()); err != nil {
			return err
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	return b.flush(ctx)
}

// copyBatch holds rows that are written together. Writing it twice does no harm.
type copyBatch struct {
	m       *migration
	to      storage.Table
	schema  storage.TableSchema
	plain   bool
	muts    []storage.RowMutation
	entries int
	bytes   int
}

// add copies a row into the batch. It splits a row that is too large for one mutation; then each part is a batch of its own.
func (b *copyBatch) add(ctx context.Context, row storage.Row) error {
	key := bytes.Clone(row.Key)
	entries, sizeBytes := b.reset(), len(key)
	for i, c := range row.Cells {
		e := storage.Entry{Kind: storage.SetCell, Family: c.Family, Qualifier: bytes.Clone(c.Qualifier), TsMs: c.TsMs}
		if f, _ := b.schema.Family(c.Family); f.Kind != storage.Plain {
			if len(c.Value) != 8 {
				return fmt.Errorf("%w: row %q, aggregate cell of %d bytes", storage.ErrCorrupt, row.Key, len(c.Value))
			}
			e.Kind, e.Add = storage.AddToCell, int64(binary.BigEndian.Uint64(c.Value))
		} else {
			e.Value = bytes.Clone(c.Value)
		}
		entries = append(entries, e)
		sizeBytes += len(c.Qualifier) + len(c.Value)
		if last := i == len(row.Cells)-1; last || len(entries) >= copyBatchEntries || sizeBytes >= copyPartBytes {
			if err := b.put(ctx, storage.RowMutation{Key: key, Entries: entries}, sizeBytes, last); err != nil {
				return err
			}
			entries, sizeBytes = nil, len(key)
		}
	}
	return nil
}

// reset returns the entries that begin a row. They clear its sums, so that writing the row again does not add twice.
func (b *copyBatch) reset() (entries []storage.Entry) {
	for _, f := range b.schema.Families {
		if f.Kind != storage.Plain {
			entries = append(entries, storage.Entry{Kind: storage.DeleteFamily, Family: f.Name})
		}
	}
	return entries
}

func (b *copyBatch) put(ctx context.Context, mut storage.RowMutation, sizeBytes int, last bool) error {
	b.muts = append(b.muts, mut)
	b.entries += len(mut.Entries)
	b.bytes += sizeBytes
	// The checkpoint may name a row only after all its parts are written.
	if !last {
		return b.write(ctx)
	}
	b.m.state.Rows++
	if len(b.muts) >= copyBatchRows || b.entries >= copyBatchEntries || b.bytes >= b.m.batchBytes {
		return b.flush(ctx)
	}
	return nil
}

func (b *copyBatch) write(ctx context.Context) error {
	if len(b.muts) == 0 {
		return nil
	}
	var err error
	if b.plain {
		err = b.to.Load(ctx, b.muts)
	} else {
		err = b.to.Apply(ctx, b.muts)
	}
	b.m.state.Bytes += int64(b.bytes)
	b.muts, b.entries, b.bytes = nil, 0, 0
	return err
}

// flush writes the batch and then the checkpoint.
func (b *copyBatch) flush(ctx context.Context) error {
	if len(b.muts) == 0 {
		return nil
	}
	last := b.muts[len(b.muts)-1].Key
	if err := b.write(ctx); err != nil {
		return err
	}
	if err := b.m.to.Sync(ctx); err != nil {
		return err
	}
	b.m.state.Last = last
	if err := b.m.writeState(); err != nil {
		return err
	}
	b.m.progress(b.schema.Name, last, false)
	return nil
}

// progress prints a line from time to time.
func (m *migration) progress(table string, last []byte, always bool) {
	now := time.Now()
	if !always && now.Sub(m.reported) < progressEvery {
		return
	}
	m.reported = now
	rate := float64(m.state.Rows-m.startAt) / max(now.Sub(m.began).Seconds(), 0.001)
	where := "finished"
	if last != nil {
		where = "at " + printable(last)
	}
	fmt.Fprintf(m.out, "%s: %d rows, %.1f MB so far, %.0f rows/s, %s\n", table, m.state.Rows, float64(m.state.Bytes)/1e6, rate,
		where)
}
