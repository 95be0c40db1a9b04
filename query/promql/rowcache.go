package promql

import (
	"encoding/binary"
	"fmt"

	"github.com/VictoriaMetrics/fastcache"
	"github.com/prometheus/client_golang/prometheus"

	"halite/keyschema"
	"halite/storage/index"
)

// rowCache keeps decoded rows of the data table, rows that are not there among them. Its keys hold the epoch of the
// row's hour, so that a row written since is not found.
//
// An entry is the values, 8 bytes each as they lie in memory; their offsets from the hour's start, 4 bytes each, if they
// are not evenly spaced; and a trailer of three numbers of 4 bytes: how many samples there are, the offset of the first,
// and the interval between them, 0 where there are offsets. So a look-up can copy it to where the values are wanted.
type rowCache struct {
	entries  *fastcache.Cache
	watch    *RowWatch
	bytesMax int64

	hits, misses prometheus.Counter
}

const (
	// rowCacheQueryShare is the part of the cache that the rows of one selector may take: those of larger ones would
	// only drive out each other.
	rowCacheQueryShare = 2
	// rowCacheRowBytes is about what an entry takes.
	rowCacheRowBytes = 1 << 10
	// rowCacheEntryMax is the size of an entry that fastcache keeps, less that of a key.
	rowCacheEntryMax = 60 << 10

	rowEntryTrailer = 12
)

func newRowCache(o *Options) (*rowCache, error) {
	if o.Watch == nil || o.RowCacheBytes < 0 {
		return nil, nil
	}
	c := &rowCache{
		entries: fastcache.New(int(o.RowCacheBytes)), watch: o.Watch, bytesMax: o.RowCacheBytes,
		hits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tsdb_query_row_cache_hits_total", Help: "Rows that queries found decoded.",
		}),
		misses: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tsdb_query_row_cache_misses_total", Help: "Rows that queries looked for among the decoded ones in vain.",
		}),
	}
	if o.Registerer == nil {
		return c, nil
	}
	for _, m := range []prometheus.Collector{
		c.hits, c.misses,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tsdb_query_row_cache_bytes", Help: "Memory of the cache of decoded rows in use.",
		}, func() float64 {
			var s fastcache.Stats
			c.entries.UpdateStats(&s)
			return float64(s.BytesSize)
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tsdb_query_row_cache_bytes_max", Help: "Memory that the cache of decoded rows may use.",
		}, func() float64 { return float64(c.bytesMax) }),
	} {
		if err := o.Registerer.Register(m); err != nil {
			return nil, fmt.Errorf("register row cache metrics: %w", err)
		}
	}
	return c, nil
}

// admits reports whether a selector of so many rows is worth a look.
func (c *rowCache) admits(rows int) bool {
	return c != nil && int64(rows) <= c.bytesMax/rowCacheRowBytes/rowCacheQueryShare
}

// rowCacheUser is what one goroutine needs to use the cache.
type rowCacheUser struct {
	*rowCache
	epochs       hourEpochs
	key, entry   []byte
	guess        int // about how many values an entry is as long as
	found, tried int
}

// Kinds of keys.
const (
	keyByRef    = 1
	keyByLabels = 2
)

// setSeries makes the key of a series, without hour and epoch. Numbers of active series are never used again.
func (u *rowCacheUser) setSeries(s *index.Series) int {
	if s.Ref != 0 {
		u.key = append(binary.LittleEndian.AppendUint64(u.key[:0], uint64(s.Ref)), keyByRef)
		return len(u.key)
	}
	u.key = append(s.Labels.Bytes(u.key), keyByLabels)
	return len(u.key)
}

// setHour completes the key of a series, whose length setSeries has told.
func (u *rowCacheUser) setHour(n int, hour int64) { u.setEpoch(n, hour, u.epochs.of(hour)) }

func (u *rowCacheUser) setEpoch(n int, hour int64, epoch uint64) {
	u.key = binary.LittleEndian.AppendUint32(u.key[:n], uint32(hour))
	u.key = binary.LittleEndian.AppendUint64(u.key, epoch)
}

// get appends the samples of a row within the window to a buffer; not ok if it is not known.
func (u *rowCacheUser) get(n int, hour int64, w window, to *buffer) (ok bool) {
	u.setHour(n, hour)
	u.tried++
	if !u.appendEntry(keyschema.HourStartMs(hour), w, to) {
		return false
	}
	u.found++
	return true
}

// put keeps a row.
func (u *rowCacheUser) put(s *index.Series, hour int64, c columns) {
	if rowEntryBytes(c) > rowCacheEntryMax {
		return
	}
	u.setHour(u.setSeries(s), hour)
	u.entry = appendRowEntry(u.entry[:0], keyschema.HourStartMs(hour), c)
	u.entries.Set(u.key, u.entry)
}

// count adds what was looked for to the metrics.
func (u *rowCacheUser) count() {
	u.hits.Add(float64(u.found))
	u.misses.Add(float64(u.tried - u.found))
}

// interval is the time between neighbouring samples, 0 if it is not always the same.
func interval(tsMs []int64) int64 {
	if len(tsMs) < 2 {
		return 1
	}
	step := tsMs[1] - tsMs[0]
	for i := 2; i < len(tsMs); i++ {
		if tsMs[i]-tsMs[i-1] != step {
			return 0
		}
	}
	return step
}
