package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"sync"
	"unicode/utf8"

	"halite/ingest/decode"
	"halite/ingest/wal"
	"halite/keyschema"
	"halite/storage"
)

const (
	// metadataPrefix begins the rows of TableMeta that hold metadata, one for each metric.
	metadataPrefix    = "metadata#"
	metadataEnd       = "metadata$"
	metadataQualifier = "json"
	// metadataEntriesMax bounds the distinct descriptions kept for one metric.
	metadataEntriesMax = 8
	metadataApplyRows  = 1000
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
func (i *intake) metadataFault(m decode.Metadata) string {
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
		value, err := json.Marshal(entries)
		if err != nil {
			return fmt.Errorf("encode metadata of %q: %w", metric, err)
		}
		muts = append(muts, storage.RowMutation{
			Key: keyschema.AppendEscaped([]byte(metadataPrefix), metric),
			Entries: []storage.Entry{{
				Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: []byte(metadataQualifier), Value: value,
			}},
		})
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

// restore takes what the table says of a metric, unless there is news of it.
func (s *metadataStore) restore(metric string, entries []Metadata) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, news := s.dirty[metric]; !news {
		s.metrics[metric] = entries
	}
}

// loadMetadata reads the table's entries.
func (i *intake) loadMetadata(ctx context.Context) error {
	rows := i.meta.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{
		{Start: []byte(metadataPrefix), End: []byte(metadataEnd)},
	}}, storage.ReadOptions{Filter: storage.Filter{Families: []string{storage.FamilyMeta}, VersionsMax: 1}})
	for rows.Next() {
		row := rows.Row()
		metric, err := keyschema.Unescape(row.Key[len(metadataPrefix):])
		if err == nil {
			for _, cell := range row.Cells {
				var entries []Metadata
				if err = json.Unmarshal(cell.Value, &entries); err == nil {
					i.metadata.restore(metric, entries)
				}
			}
		}
		if err != nil {
			// Descriptions are worth less than a start.
			i.logger.Warn("metadata row does not parse", "key", string(row.Key), "err", err)
		}
	}
	err := rows.Err()
	if closeErr := rows.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	return nil
}
