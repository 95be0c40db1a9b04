package replay

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"

	"halite/ingest/wal"
	"halite/ingest/wal/record"
	"halite/keyschema"
)

// SeriesHours adds a series. It returns touch, which adds an hour in which the series has samples. *index.Index does that
// with Add and MarkActive.
type SeriesHours func(ls labels.Labels) (touch func(hour int64), err error)

// ReadLog reads the log of a stopped server and passes its series and their hours to add. It returns the damaged parts. It
// changes nothing.
func ReadLog(fs vfs.FS, dir string, add SeriesHours) (losses []wal.Loss, err error) {
	packer, err := record.NewSeriesPacker()
	if err != nil {
		return nil, err
	}
	defer packer.Close()
	r := logReader{add: add, packer: packer, touch: map[uint32]func(int64){}, last: map[uint32]int64{}}
	return wal.Scan(fs, dir, r.record)
}

// logReader maps numbers in the log to series.
type logReader struct {
	add    SeriesHours
	packer *record.SeriesPacker
	touch  map[uint32]func(hour int64)
	last   map[uint32]int64 // last hour that was added
}

func (r *logReader) record(kind byte, payload []byte, at wal.Position) error {
	switch kind {
	case record.KindSeries:
		return record.ParseSeries(payload, r.series)
	case record.KindSeriesColumns:
		series, err := r.packer.Unpack(payload)
		if err != nil {
			return fmt.Errorf("%w at %s", err, at)
		}
		return record.ParseSeriesColumns(series, r.series)
	case record.KindSamples, record.KindStartTimes:
		it := record.ReadSamples(payload)
		for it.Next() {
			r.sample(it.Ref, it.TsMs)
		}
		return it.Err()
	case record.KindHistograms, record.KindExemplars:
		it := record.ReadEncoded(payload)
		for it.Next() {
			r.sample(it.Ref, it.TsMs)
		}
		return it.Err()
	}
	return nil
}

// sample adds the hour of a sample.
func (r *logReader) sample(number uint32, tsMs int64) {
	hour := keyschema.HourOf(max(0, tsMs))
	if touch := r.touch[number]; touch != nil && r.last[number] != hour {
		touch(hour)
		r.last[number] = hour
	}
}

// series adds a series under a number. A series without labels frees the number.
func (r *logReader) series(number uint32, ls []labels.Label) (err error) {
	delete(r.last, number)
	if len(ls) == 0 {
		delete(r.touch, number)
		return nil
	}
	r.touch[number], err = r.add(labels.New(ls...))
	return err
}
