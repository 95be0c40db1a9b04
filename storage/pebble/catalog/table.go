package catalog

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"halite/storage"
	"halite/storage/pebble/cellkey"
	"halite/storage/pebble/fault"
)

// Table number 0 is the catalogue: it has one record and the split keys of each table.
const (
	TableID = 0
	Tables  = 1 // family id of table records
	Splits  = 2 // family id of split keys
)

// Table is the record of a table. It is JSON, so that new fields need no new format.
type Table struct {
	ID       uint16   `json:"id"`
	Name     string   `json:"name"`
	HourKeys bool     `json:"hour_keys"`
	Families []Family `json:"families"`
	// DayChunkCodec names the codec of the day chunks, if there are any. DayChunkDays are the days that may have some.
	DayChunkCodec string        `json:"day_chunk_codec,omitempty"`
	DayChunkDays  []DayChunkDay `json:"day_chunk_days,omitempty"`
}

// DayChunkDay is a family and day that may have day chunks.
type DayChunkDay struct {
	Family uint8 `json:"f"`
	Day    int32 `json:"d"`
	// Complete means that no cell was outside the day chunks at the time of the record.
	Complete bool `json:"c,omitempty"`
}

type Family struct {
	ID           uint8              `json:"id"`
	Name         string             `json:"name"`
	Kind         storage.FamilyKind `json:"kind"`
	MaxAgeNs     int64              `json:"max_age_ns,omitempty"`
	MaxVersions  int                `json:"max_versions,omitempty"`
	Intersection bool               `json:"intersection,omitempty"`
	Mixed        bool               `json:"mixed,omitempty"`
}

func NewTable(id uint16, schema *storage.TableSchema) Table {
	rec := Table{ID: id, Name: schema.Name, HourKeys: schema.HourKeys}
	for i, f := range schema.Families {
		rec.Families = append(rec.Families, Family{ID: uint8(i + 1), Name: f.Name, Kind: f.Kind,
			MaxAgeNs: int64(f.GC.MaxAge), MaxVersions: f.GC.MaxVersions, Intersection: f.GC.Intersection,
			Mixed: !schema.HourKeys})
	}
	return rec
}

func (r *Table) Schema() storage.TableSchema {
	s := storage.TableSchema{Name: r.Name, HourKeys: r.HourKeys}
	for _, f := range r.Families {
		s.Families = append(s.Families, storage.Family{Name: f.Name, Kind: f.Kind, GC: storage.GCPolicy{
			MaxAge: time.Duration(f.MaxAgeNs), MaxVersions: f.MaxVersions, Intersection: f.Intersection}})
	}
	return s
}

// WithSchema returns the record with the GC policies of schema. It fails with storage.ErrSchemaMismatch if more than policies
// differ.
func (r *Table) WithSchema(schema *storage.TableSchema) (Table, error) {
	if r.HourKeys != schema.HourKeys {
		return Table{}, fmt.Errorf("%w: table %s has HourKeys %t on disk", storage.ErrSchemaMismatch, r.Name,
			r.HourKeys)
	}
	if len(r.Families) != len(schema.Families) {
		return Table{}, fmt.Errorf("%w: table %s has %d families on disk, not %d", storage.ErrSchemaMismatch,
			r.Name, len(r.Families), len(schema.Families))
	}
	out := *r
	out.Families = append([]Family(nil), r.Families...)
	for i := range out.Families {
		f := &out.Families[i]
		want, ok := schema.Family(f.Name)
		if !ok || want.Kind != f.Kind {
			return Table{}, fmt.Errorf("%w: table %s has family %s of kind %d on disk", storage.ErrSchemaMismatch,
				r.Name, f.Name, f.Kind)
		}
		f.MaxAgeNs, f.MaxVersions, f.Intersection = int64(want.GC.MaxAge), want.GC.MaxVersions, want.GC.Intersection
	}
	return out, nil
}

func Key(family uint8, name string) []byte {
	h := cellkey.NewHeader(TableID, family, 0)
	return append(append(h[:], name...), cellkey.Sentinel)
}

// Read calls fn with the name and value of each record in a family.
func Read(db *pebble.DB, family uint8, fn func(name string, value []byte) error) (err error) {
	h := cellkey.NewHeader(TableID, family, 0)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: cellkey.AppendPartitionStart(nil, h),
		UpperBound: cellkey.AppendPartitionStart(nil, h.Next())})
	if err != nil {
		return fault.Wrap("read table catalogue", err)
	}
	defer func() { err = fault.CloseIter(it, err) }()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if err := fn(string(bytes.TrimSuffix(it.Key()[cellkey.HeaderBytes:], []byte{cellkey.Sentinel})), value); err != nil {
			return err
		}
	}
	return nil
}

// FindDayChunks returns the index of a partition in DayChunkDays, or -1.
func (r *Table) FindDayChunks(family uint8, day int32) int {
	return slices.IndexFunc(r.DayChunkDays, func(d DayChunkDay) bool { return d.Family == family && d.Day == day })
}
