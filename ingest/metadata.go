package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"unicode/utf8"

	"halite/ingest/remotewrite"
	"halite/ingest/wal"
	"halite/keyschema"
	"halite/storage"
	"halite/storage/jsoncell"
)

const (
	// metadataPrefix begins the rows of TableMeta that hold metadata, one for each metric.
	metadataPrefix    = "metadata#"
	metadataEnd       = "metadata$"
	metadataQualifier = "json"
	// metadataEntriesMax bounds the distinct descriptions kept for one metric.
	metadataEntriesMax = 8
	// metadataEscapeMax is how many bytes of JSON a byte of text may take.
	metadataEscapeMax = 6
	metadataApplyRows = 1000
)

// metadataStore keeps what senders said about metrics.
type metadataStore struct {
	mu      sync.Mutex
	metrics map[string][]Metadata // newest first
	dirty   map[string]struct{}   // not yet in the table
}

func newMetadataStore() *metadataStore {
	return &metadataStore{metrics: make(map[string][]Metadata), dirty: make(map[string]struct{})}
}

// put makes m the newest description of the metric. It reports whether that changes anything.
func (s *metadataStore) put(metric string, m Metadata) bool {
	entries := s.metrics[metric]
	at := slices.Index(entries, m)
	if at == 0 {
		return false
	}
	if at < 0 {
		entries = append(entries, Metadata{})
		at = len(entries) - 1
	}
	copy(entries[1:at+1], entries[:at])
	entries[0] = m
	s.metrics[metric] = entries[:min(len(entries), metadataEntriesMax)]
	s.dirty[metric] = struct{}{}
	return true
}

// describeMetrics stores the request's metadata. Faulty entries are counted and left out; they fail no sample.
func (r *request) describeMetrics() error {
	if len(r.news) == 0 {
		return nil
	}
	i, s := r.i, r.i.metadata
	s.mu.Lock()
	defer s.mu.Unlock()
	r.payload = r.payload[:0]
	for _, m := range r.news {
		if reason := i.metadataFault(m); reason != "" {
			i.metrics.rejected.WithLabelValues(reason).Inc()
			continue
		}
		if s.put(m.Metric, Metadata{Type: m.Type, Help: m.Help, Unit: m.Unit}) {
			r.payload = wal.AppendMetadata(r.payload, wal.Metadata(m))
		}
		if len(r.payload) > seriesRecordBytes {
			if err := r.logMetadata(); err != nil {
				return err
			}
		}
	}
	return r.logMetadata()
}

func (r *request) logMetadata() error {
	if len(r.payload) == 0 {
		return nil
	}
	if err := r.to.appendLog(r, wal.KindMetadata, r.payload); err != nil {
		return err
	}
	r.payload = r.payload[:0]
	return nil
}

// metadataFault returns the reason not to keep an entry; the caller holds the store's lock.
func (i *intake) metadataFault(m remotewrite.Metadata) string {
	_, known := i.metadata.metrics[m.Metric]
	switch {
	case m.Metric == "" || len(m.Metric) > i.limits.MetricNameBytesMax,
		len(m.Type)+len(m.Help)+len(m.Unit) > i.limits.MetadataBytesMax,
		!utf8.ValidString(m.Metric), !utf8.ValidString(m.Help), !utf8.ValidString(m.Unit):
		return ReasonMetadataInvalid
	case !known && len(i.metadata.metrics) >= i.limits.MetadataMetricsMax:
		return ReasonMetadataLimit
	}
	return ""
}

// Metadata returns what senders said about a metric, newest first, or about all metrics if metric is empty; limit
// bounds the metrics, 0 means all.
func (i *intake) Metadata(metric string, limit int) map[string][]Metadata {
	s := i.metadata
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make(map[string][]Metadata)
	if metric != "" {
		if entries, known := s.metrics[metric]; known {
			found[metric] = slices.Clone(entries)
		}
		return found
	}
	names := make([]string, 0, len(s.metrics))
	for name := range s.metrics {
		names = append(names, name)
	}
	sort.Strings(names)
	if limit > 0 {
		names = names[:min(limit, len(names))]
	}
	for _, name := range names {
		found[name] = slices.Clone(s.metrics[name])
	}
	return found
}

// persistMetadata writes changed entries to the table.
func (i *intake) persistMetadata(ctx context.Context) error {
	s := i.metadata
	s.mu.Lock()
	changed := make(map[string][]Metadata, len(s.dirty))
	for metric := range s.dirty {
		changed[metric] = slices.Clone(s.metrics[metric])
	}
	s.mu.Unlock()
	var muts []storage.RowMutation
	apply := func() error {
		if err := i.meta.Apply(ctx, muts); err != nil {
			return fmt.Errorf("write metadata: %w", err)
		}
		muts = muts[:0]
		return nil
	}
	for metric, entries := range changed {
		key := keyschema.AppendEscaped([]byte(metadataPrefix), metric)
		entry, err := i.metadataCell(key).Entry(entries)
		if err != nil {
			return err
		}
		muts = append(muts, storage.RowMutation{Key: key, Entries: []storage.Entry{entry}})
		if len(muts) == metadataApplyRows {
			if err := apply(); err != nil {
				return err
			}
		}
	}
	if len(muts) > 0 {
		if err := apply(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for metric, entries := range changed {
		if slices.Equal(s.metrics[metric], entries) {
			delete(s.dirty, metric)
		}
	}
	return nil
}

// emitMetadata writes entries that the table lacks into a checkpoint of the log.
func (i *Ingester) emitMetadata(emit func(kind byte, payload []byte) error) error {
	s := i.metadata
	s.mu.Lock()
	defer s.mu.Unlock()
	var payload []byte
	for metric := range s.dirty {
		for _, m := range slices.Backward(s.metrics[metric]) {
			payload = wal.AppendMetadata(payload, wal.Metadata{Metric: metric, Type: m.Type, Help: m.Help, Unit: m.Unit})
		}
		if len(payload) >= seriesRecordBytes {
			if err := emit(wal.KindMetadata, payload); err != nil {
				return err
			}
			payload = payload[:0]
		}
	}
	if len(payload) == 0 {
		return nil
	}
	return emit(wal.KindMetadata, payload)
}

// metadataCell is where the descriptions of a metric are stored.
func (i *intake) metadataCell(key []byte) jsoncell.Cell {
	return jsoncell.Cell{Row: string(key), Qualifier: metadataQualifier,
		BytesMax: jsoncell.BytesMax + metadataEntriesMax*metadataEscapeMax*i.limits.MetadataBytesMax}
}

// restoreMetadata takes what the table says of a metric, unless there is news of it. What another server with other limits has
// stored beyond ours is left out, like that of a sender.
func (i *intake) restoreMetadata(metric string, entries []Metadata) error {
	s := i.metadata
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(entries) > metadataEntriesMax {
		return fmt.Errorf("%d descriptions, the most is %d", len(entries), metadataEntriesMax)
	}
	for _, m := range entries {
		if reason := i.metadataFault(remotewrite.Metadata{Metric: metric, Type: m.Type, Help: m.Help, Unit: m.Unit}); reason != "" {
			return errors.New(reason)
		}
	}
	if _, news := s.dirty[metric]; !news && len(entries) > 0 {
		s.metrics[metric] = entries
	}
	return nil
}

// loadMetadata reads the table's entries. Those that do not parse or are beyond the limits are left out: descriptions are worth
// less than a start.
func (i *intake) loadMetadata(ctx context.Context) error {
	rows := i.meta.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{
		{Start: []byte(metadataPrefix), End: []byte(metadataEnd)},
	}}, storage.ReadOptions{Filter: storage.Filter{Families: []string{storage.FamilyMeta}, VersionsMax: 1}})
	faults, first := 0, error(nil)
	for rows.Next() {
		row := rows.Row()
		if err := i.loadMetadataRow(&row); err != nil {
			faults++
			if first == nil {
				first = err
			}
		}
	}
	err := rows.Err()
	if closeErr := rows.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	if faults > 0 {
		i.logger.Warn("metadata of some metrics is left out", "metrics", faults, "first", first)
	}
	return nil
}

func (i *intake) loadMetadataRow(row *storage.Row) error {
	at := i.metadataCell(row.Key)
	metric, err := keyschema.Unescape(row.Key[len(metadataPrefix):])
	if err != nil {
		return at.Corrupt(err)
	}
	for _, cell := range row.Cells {
		if string(cell.Qualifier) != metadataQualifier {
			continue
		}
		var entries []Metadata
		if err := at.Decode(cell.Value, &entries); err != nil {
			return err
		}
		if err := i.restoreMetadata(metric, entries); err != nil {
			return at.Corrupt(err)
		}
	}
	return nil
}
