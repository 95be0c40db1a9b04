package journal

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/envelope"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// Found is the result of a scan of journals, besides the records.
type Found struct {
	// Damaged are days with damaged journals.
	Damaged []int64
	// Obsolete are days with records that their segments contain.
	Obsolete []presence.Partition
}

func (f *Found) damaged(day int64) {
	if !slices.Contains(f.Damaged, day) {
		f.Damaged = append(f.Damaged, day)
	}
}

// Read loads the records that the filter passes and no segment contains.
func (j *Journal) Read(ctx context.Context, rows storage.RowSet, filter storage.Filter) (found Found, err error) {
	it := j.store.SeriesTable.ReadRows(ctx, rows, storage.ReadOptions{Filter: filter})
	defer func() { _ = it.Close() }()
	r := dayReader{j: j, packer: &packer{}}
	defer r.packer.close()
	for it.Next() {
		row := it.Row()
		kind, p, seq, err := segment.ParseKey(row.Key)
		if err != nil || kind != segment.QualRecord && kind != segment.KindWriterRecord {
			return found, envelope.Corrupt(storage.TableSeries, row.Key, nil, segment.ErrBadKey)
		}
		day := p.FirstDay()
		if kind == segment.KindWriterRecord {
			if !j.readShared(row, day, seq, r.packer) {
				found.damaged(day)
			}
			continue
		}
		j.cursor.day(day).exclusive = true
		if r.day == nil || r.day.Day != day {
			if err := r.start(ctx, day); err != nil {
				return found, err
			}
		}
		if seq < r.firstSeq {
			found.Obsolete = append(found.Obsolete, p)
			continue
		}
		if err := r.add(row, seq); err != nil {
			j.reportDamage(err)
			found.damaged(day)
		}
		if j.open.Get(day) == nil {
			j.open.Put(r.day)
		}
	}
	if err := it.Err(); err != nil {
		return found, err
	}
	j.cursor.endScan()
	return found, nil
}

func (j *Journal) reportDamage(err error) {
	j.opts.Logger.Error("index journal is damaged; the server rebuilds it from the data rows", "err", err)
	j.opts.Repairs.Inc()
}

// Unread lists the ranges of rows that may have unread records of other writers.
func (j *Journal) Unread() []storage.RowRange { return j.cursor.unread() }

// EndScan ends a scan of Unread that has returned all rows.
func (j *Journal) EndScan() { j.cursor.endScan() }

// Reader reads single records with a writer. The caller closes it.
type Reader struct {
	j      *Journal
	packer packer
}

// NewReader returns a Reader.
func (j *Journal) NewReader() *Reader { return &Reader{j: j} }

// Read loads a record. It reports whether the record is whole.
func (r *Reader) Read(row storage.Row, day int64, seq uint32) bool {
	return r.j.readShared(row, day, seq, &r.packer)
}

// Close frees the memory of the reader.
func (r *Reader) Close() { r.packer.close() }

// readShared loads a record with a writer and reports whether it is whole. The day records the key of a damaged one.
func (j *Journal) readShared(row storage.Row, day int64, seq uint32, packer *packer) bool {
	d := j.open.Day(day)
	j.cursor.add(day, segment.ParseWriter(row.Key), seq)
	err := j.readInto(d, row, packer)
	if err != nil {
		j.reportDamage(err)
	}
	if err != nil || j.opts.Collect {
		d.Records = append(d.Records, slices.Clone(row.Key))
	}
	return err == nil
}

// readInto adds the series and hours of a record with a writer to a day.
func (j *Journal) readInto(d *memory.OpenDay, row storage.Row, packer *packer) error {
	r := dayReader{j: j, day: d, loader: loader{active: j.active}, packer: packer, shared: true}
	r.unsure = j.store.Closed.Day(d.Day) != nil
	return r.load(row)
}

// ReadRemaining reads all of a day's records with a writer, and returns a day with only their series and hours.
func (j *Journal) ReadRemaining(ctx context.Context, day int64) (remaining *memory.OpenDay, damaged bool, err error) {
	remaining = memory.NewOpenDay(day)
	prefix := segment.AppendDay([]byte(segment.JournalPrefix), day)
	prefix = append(prefix, '#', segment.WriterMark)
	it := j.store.SeriesTable.ReadRows(ctx, segment.PrefixRows(string(prefix)),
		storage.ReadOptions{Filter: storage.Filter{VersionsMax: 1}})
	defer func() { _ = it.Close() }()
	packer := &packer{}
	defer packer.close()
	for it.Next() {
		row := it.Row()
		_, _, seq, err := segment.ParseKey(row.Key)
		if err != nil {
			return nil, false, envelope.Corrupt(storage.TableSeries, row.Key, nil, err)
		}
		if !j.readShared(row, day, seq, packer) {
			damaged = true
			continue
		}
		if err := j.readInto(remaining, row, packer); err != nil {
			return nil, false, err
		}
	}
	return remaining, damaged, it.Err()
}

// dayReader loads the records of one day.
type dayReader struct {
	j        *Journal
	day      *memory.OpenDay
	firstSeq uint32
	loader   loader
	packer   *packer
	broken   bool
	// shared means that records have a writer. Their series have no numbers in the journal.
	shared bool
	// unsure marks the hours as unsure: a segment of the day may supersede the record.
	unsure bool
}

// start begins with the records without a writer of a day.
func (r *dayReader) start(ctx context.Context, day int64) error {
	*r = dayReader{j: r.j, day: memory.NewOpenDay(day), loader: loader{active: r.j.active}, packer: r.packer}
	r.day.Journal.Known = true
	c := r.j.store.Closed.Day(day)
	if c == nil {
		return nil
	}
	m, err := r.j.store.Manifest(ctx, c)
	if errors.Is(err, storage.ErrCorrupt) {
		// The manifest is unreadable, so any record may be missing from the segment: load all records.
		r.j.opts.Logger.Error("index day is damaged; reads of the day fail until it is rebuilt", "day", day, "err", err)
		return nil
	}
	if err != nil {
		return err
	}
	r.firstSeq = m.JournalSeq
	return nil
}

// add loads a record without a writer. The records after a damaged one cannot be decoded.
func (r *dayReader) add(row storage.Row, seq uint32) error {
	if r.day.Journal.Seq == 0 {
		r.day.Journal.First = seq
	}
	r.day.Journal.Seq = seq + 1
	if r.broken {
		return nil
	}
	if err := r.load(row); err != nil {
		r.broken = true
		return err
	}
	r.day.Journal.Rows = uint32(len(r.loader.rows))
	return nil
}

func (r *dayReader) load(row storage.Row) error {
	qualifier := []byte{segment.QualRecord}
	i := slices.IndexFunc(row.Cells, func(c storage.Cell) bool { return string(c.Qualifier) == string(qualifier) })
	if i < 0 {
		return envelope.Corrupt(storage.TableSeries, row.Key, qualifier, envelope.ErrMissing)
	}
	if err := r.loadValue(row.Cells[i].Value, row.Key, qualifier); err != nil {
		return envelope.Corrupt(storage.TableSeries, row.Key, qualifier, err)
	}
	return nil
}

func (r *dayReader) loadValue(value, key, qualifier []byte) error {
	stored, format, err := envelope.OpenUpTo(envelope.FormatV2, value, key, qualifier)
	if err != nil {
		return err
	}
	payload, err := r.packer.payload(stored, format)
	if err != nil {
		return err
	}
	record, err := parseRecord(payload)
	if err != nil {
		return err
	}
	if r.shared && record.base != 0 {
		return fmt.Errorf("%w: a record with a writer starts at series %d instead of 0", errGap, record.base)
	}
	return r.loader.add(record, presence.FirstHour(r.day.Day), func(ref memory.Ref, row, hours uint32) {
		if r.shared {
			row = 0
		} else {
			row++
		}
		r.day.Restore(ref, row, hours, r.unsure)
		r.j.active.RaiseLastHour(ref, lastHour(r.day.Day, hours))
	})
}

// lastHour is the last of the hours of a day in a mask.
func lastHour(day int64, hours uint32) int64 {
	return min(presence.FirstHour(day)+int64(max(1, bits.Len32(hours)))-1, keyschema.HourMax)
}
