package notes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"halite/storage"
	"halite/storage/jsoncell"
)

const (
	// annotationPrefix begins the rows of annotations. annotationEnd sorts after all of them.
	annotationPrefix = "annotation#"
	annotationEnd    = "annotation$"
	descriptionRows  = "description#"
	qualifier        = "document"
	// timeDigits is the number of digits of a time in ms in a row key.
	timeDigits = 15
	applyRows  = 1000
	// DocumentBytesMax bounds an annotation or a description.
	DocumentBytesMax = 64 << 10
)

// ErrTooMany means that a range has more annotations than the caller accepts.
var ErrTooMany = errors.New("too many annotations")

// Annotation is a note about a time.
type Annotation struct {
	// TSUID is the series in hexadecimal digits, in capitals; "" means all.
	TSUID string `json:"tsuid,omitempty"`
	// StartMs and EndMs are in milliseconds since 1970; EndMs is 0 if the annotation has no end.
	StartMs int64 `json:"startMs"`
	EndMs   int64 `json:"endMs,omitempty"`
	// Seconds is set if the writer gave the times in seconds.
	Seconds     bool              `json:"seconds,omitempty"`
	Description string            `json:"description,omitempty"`
	Notes       string            `json:"notes,omitempty"`
	Custom      map[string]string `json:"custom,omitempty"`
}

// Store reads and writes the notes of one tenant. Its methods may be called concurrently.
type Store struct {
	meta storage.Table
	// tenant precedes the series in row keys.
	tenant string
	flush  func(ctx context.Context) error
	// mu serialises read-modify-write changes, so that none is lost.
	mu *sync.Mutex
}

// New returns the store of the default tenant in table meta. flush makes earlier writes durable.
func New(meta storage.Table, flush func(ctx context.Context) error) *Store {
	return &Store{meta: meta, flush: flush, mu: &sync.Mutex{}}
}

// ForTenant returns the store of a tenant; "" is the default tenant.
func (s *Store) ForTenant(tenant string) *Store {
	tenantStore := *s
	tenantStore.tenant = tenant
	return &tenantStore
}

// rowOf is the row of an annotation.
func (s *Store) rowOf(series string, startMs int64) string {
	return fmt.Sprintf("%s%s#%s#%0*d", annotationPrefix, s.tenant, series, timeDigits, startMs)
}

func cellOf(row string) jsoncell.Cell {
	return jsoncell.Cell{Row: row, Qualifier: qualifier, BytesMax: DocumentBytesMax}
}

// Annotation returns the annotation of a series, or of all, at a time. found is false if there is none.
func (s *Store) Annotation(ctx context.Context, series string, startMs int64) (a Annotation, found bool, err error) {
	found, err = cellOf(s.rowOf(series, startMs)).Read(ctx, s.meta, &a)
	return a, found, err
}

// Change calls change with the annotation at the same place and stores its result. found is false if there is none. It
// returns an error of change.
func (s *Store) Change(
	ctx context.Context, series string, startMs int64, change func(a Annotation, found bool) (Annotation, error),
) (a Annotation, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, found, err := s.Annotation(ctx, series, startMs)
	if err != nil {
		return a, err
	}
	if a, err = change(a, found); err != nil {
		return a, err
	}
	a.TSUID, a.StartMs = series, startMs
	if err := cellOf(s.rowOf(series, startMs)).Write(ctx, s.meta, &a); err != nil {
		return a, err
	}
	return a, s.flush(ctx)
}

// Annotations returns the annotations of a series, or of all, whose start lies in [fromMs, toMs]. The error is ErrTooMany if
// there are more than limit.
func (s *Store) Annotations(ctx context.Context, series string, fromMs, toMs int64, limit int) (list []Annotation, err error) {
	err = s.scan(ctx, s.rowOf(series, max(fromMs, 0)), s.rowOf(series, max(toMs, -1)+1), func(_ []byte, a *Annotation) error {
		if len(list) == limit {
			return fmt.Errorf("%w: more than %d", ErrTooMany, limit)
		}
		list = append(list, *a)
		return nil
	})
	return list, err
}

// scan calls visit for the annotations between two rows.
func (s *Store) scan(ctx context.Context, start, end string, visit func(row []byte, a *Annotation) error) (err error) {
	rows := s.meta.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{Start: []byte(start), End: []byte(end)}}},
		storage.ReadOptions{Filter: storage.Filter{Families: []string{storage.FamilyMeta}, VersionsMax: 1}})
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		row := rows.Row()
		for _, cell := range row.Cells {
			if string(cell.Qualifier) != qualifier {
				continue
			}
			var a Annotation
			if err := cellOf(string(row.Key)).Decode(cell.Value, &a); err != nil {
				return err
			}
			if err := visit(row.Key, &a); err != nil {
				return err
			}
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read annotations: %w", err)
	}
	return nil
}

// Delete deletes the annotations of a series, or of all, whose start lies in [fromMs, toMs]. It returns their number.
func (s *Store) Delete(ctx context.Context, series string, fromMs, toMs int64) (int, error) {
	return s.deleteIf(ctx, s.rowOf(series, max(fromMs, 0)), s.rowOf(series, max(toMs, -1)+1), func(*Annotation) bool { return true })
}

// Series returns the series that have annotations whose start lies in [fromMs, toMs].
func (s *Store) Series(ctx context.Context, fromMs, toMs int64) (map[string]bool, error) {
	series := map[string]bool{}
	err := s.scan(ctx, annotationPrefix+s.tenant+"#", annotationPrefix+s.tenant+"$", func(_ []byte, a *Annotation) error {
		if a.TSUID != "" && a.StartMs >= fromMs && a.StartMs <= toMs {
			series[a.TSUID] = true
		}
		return nil
	})
	return series, err
}

// Sweep deletes expired annotations of all tenants and returns their number. An annotation has expired if it ends before the
// time that cutoffMs returns for its series. Without an end its start counts. The series is "" for annotations of all series.
func (s *Store) Sweep(ctx context.Context, cutoffMs func(tsuid string) int64) (int, error) {
	return s.deleteIf(ctx, annotationPrefix, annotationEnd, func(a *Annotation) bool {
		return max(a.StartMs, a.EndMs) < cutoffMs(a.TSUID)
	})
}

// deleteIf deletes annotations between two rows.
func (s *Store) deleteIf(ctx context.Context, start, end string, doomed func(*Annotation) bool) (deleted int, err error) {
	s.mu.Lock() // so that no annotation changes between the scan and its deletion
	defer s.mu.Unlock()
	var rows []storage.RowMutation
	if err := s.scan(ctx, start, end, func(row []byte, a *Annotation) error {
		if doomed(a) {
			rows = append(rows, storage.RowMutation{Key: bytes.Clone(row), Entries: []storage.Entry{{Kind: storage.DeleteRow}}})
		}
		return nil
	}); err != nil || len(rows) == 0 {
		return 0, err
	}
	for rest := rows; len(rest) > 0; rest = rest[min(applyRows, len(rest)):] {
		if err := s.meta.Apply(ctx, rest[:min(applyRows, len(rest))]); err != nil {
			return deleted, fmt.Errorf("delete annotations: %w", err)
		}
		deleted += min(applyRows, len(rest))
	}
	return deleted, s.flush(ctx)
}

func (s *Store) descriptionRow(kind, id string) string {
	return descriptionRows + s.tenant + "#" + kind + "#" + id
}

// ReadDescription reads the description of a name or a series into a document. kind and id address it.
func (s *Store) ReadDescription(ctx context.Context, kind, id string, into any) (found bool, err error) {
	return cellOf(s.descriptionRow(kind, id)).Read(ctx, s.meta, into)
}

// ChangeDescription reads the description into a document, calls change, and stores the document. It returns an error of
// change.
func (s *Store) ChangeDescription(ctx context.Context, kind, id string, document any, change func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.ReadDescription(ctx, kind, id, document); err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	if err := cellOf(s.descriptionRow(kind, id)).Write(ctx, s.meta, document); err != nil {
		return err
	}
	return s.flush(ctx)
}

// DeleteDescription deletes the description of a name or a series.
func (s *Store) DeleteDescription(ctx context.Context, kind, id string) error {
	s.mu.Lock() // so that no change that has read the description stores it again
	defer s.mu.Unlock()
	err := s.meta.Apply(ctx, []storage.RowMutation{{
		Key: []byte(s.descriptionRow(kind, id)), Entries: []storage.Entry{{Kind: storage.DeleteRow}},
	}})
	if err != nil {
		return fmt.Errorf("delete the description %s: %w", strconv.Quote(id), err)
	}
	return s.flush(ctx)
}

// Drop deletes all annotations and descriptions of the tenant, which is not the default one.
func (s *Store) Drop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, prefix := range []string{annotationPrefix + s.tenant, descriptionRows + s.tenant} {
		if err := s.meta.DropRows(ctx, storage.RowRange{Start: []byte(prefix + "#"), End: []byte(prefix + "$")}); err != nil {
			return fmt.Errorf("delete the notes of a tenant: %w", err)
		}
	}
	return s.flush(ctx)
}

// Count returns the number of annotations of the tenant.
func (s *Store) Count(ctx context.Context) (annotations int, err error) {
	err = s.scan(ctx, annotationPrefix+s.tenant+"#", annotationPrefix+s.tenant+"$", func([]byte, *Annotation) error {
		annotations++
		return nil
	})
	return annotations, err
}
