package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"strings"
	"sync"
	"unicode/utf8"

	"halite/ingest/remotewrite"
	"halite/ingest/wal/record"
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
	// metadataEscapeMax is the largest number of bytes that one byte of text takes in JSON.
	metadataEscapeMax = 6
	metadataApplyRows = 1000
	// metadataRecordBytes is the size at which a log record of metadata is complete.
	metadataRecordBytes = 1 << 20
)

// metadataStore keeps the descriptions of metrics that senders send.
type metadataStore struct {
	table  storage.Table
	limits Limits
	logger *slog.Logger

	mu      sync.Mutex
	metrics map[string][]Metadata // newest first
	dirty   map[string]struct{}   // not yet in the table
	// byTenant counts the metrics of each tenant by the prefix of their stored names.
	byTenant map[string]int
	// targets maps each target to the description that it sends, for metrics with several descriptions. The map is not
	// stored, because remote write 2.0 repeats the description with each series.
	targets     map[string]map[target]Metadata
	targetCount int
}

// target is the labels job and instance of a series.
type target struct{ job, instance string }

// targetsMax bounds the descriptions by target of all metrics. When there are more, the store drops all of them. Senders
// send them again.
const targetsMax = 100_000

func newMetadataStore(table storage.Table, limits Limits, logger *slog.Logger) *metadataStore {
	return &metadataStore{
		table: table, limits: limits, logger: logger, metrics: make(map[string][]Metadata), dirty: make(map[string]struct{}),
		byTenant: make(map[string]int),
		targets:  make(map[string]map[target]Metadata),
	}
}

// put makes m the newest description of the metric. It returns false if m already is the newest.
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
	s.count(metric)
	entries[0] = m
	s.metrics[metric] = entries[:min(len(entries), metadataEntriesMax)]
	s.dirty[metric] = struct{}{}
	return true
}

// count counts a metric for its tenant unless the store knows the metric. The caller holds the lock and then adds the
// metric.
func (s *metadataStore) count(metric string) {
	if _, known := s.metrics[metric]; !known {
		prefix, _ := keyschema.SplitTenant(metric)
		s.byTenant[prefix]++
	}
}

// full reports whether a tenant may describe no more metrics. On a server with tenants, each tenant leaves a quarter of the
// bound to the others. The caller holds the lock.
func (s *metadataStore) full(metric string) bool {
	most := s.limits.MetadataMetricsMax
	if s.limits.Tenants {
		prefix, _ := keyschema.SplitTenant(metric)
		return len(s.metrics) >= most || s.byTenant[prefix] >= max(1, most-most/tenantShare)
	}
	return len(s.metrics) >= most
}

// has reports whether the store has an entry, newest or not. several reports whether the metric has more than one entry.
// Remote write 2.0 repeats the metadata with each series. If two senders describe a metric differently, reordering the
// entries by time would change their order with every request.
func (s *metadataStore) has(metric []byte, kind string, help, unit []byte) (known, several bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := s.metrics[string(metric)]
	for n := range entries {
		if entries[n].is(kind, help, unit) {
			return true, len(entries) > 1
		}
	}
	return false, len(entries) > 1
}

func (m *Metadata) is(kind string, help, unit []byte) bool {
	return m.Type == kind && m.Help == string(help) && m.Unit == string(unit)
}

// assign records the entry that a target sends for a metric.
func (s *metadataStore) assign(metric []byte, kind string, help, unit, job, instance []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	byTarget := s.targets[string(metric)]
	if m, known := byTarget[target{string(job), string(instance)}]; known && m.is(kind, help, unit) {
		return
	}
	for _, m := range s.metrics[string(metric)] {
		if !m.is(kind, help, unit) {
			continue
		}
		if s.targetCount >= targetsMax {
			clear(s.targets)
			byTarget, s.targetCount = nil, 0
		}
		if byTarget == nil {
			byTarget = make(map[target]Metadata)
			s.targets[string(metric)] = byTarget
		}
		before := len(byTarget)
		byTarget[target{string(job), string(instance)}] = m
		s.targetCount += len(byTarget) - before
	}
}

// ofTarget implements Writer.TargetMetadata.
func (s *metadataStore) ofTarget(metric, job, instance string) (m Metadata, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := s.metrics[metric]
	if len(entries) == 0 {
		return m, false
	}
	if m, assigned := s.targets[metric][target{job, instance}]; assigned {
		return m, true
	}
	return entries[0], true
}

// fault returns the reason to refuse an entry, "" if there is none. The caller holds the lock.
func (s *metadataStore) fault(m remotewrite.Metadata) string {
	_, known := s.metrics[m.Metric]
	switch {
	case m.Metric == "" || len(m.Metric) > s.limits.MetricNameBytesMax,
		len(m.Type)+len(m.Help)+len(m.Unit) > s.limits.MetadataBytesMax,
		!utf8.ValidString(m.Metric), !utf8.ValidString(m.Help), !utf8.ValidString(m.Unit):
		return ReasonMetadataInvalid
	case !known && s.full(m.Metric):
		return ReasonMetadataLimit
	}
	return ""
}

// get implements Writer.Metadata.
func (s *metadataStore) get(metric string, limit int) map[string][]Metadata {
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

// persist writes changed entries to the table.
func (s *metadataStore) persist(ctx context.Context) error {
	s.mu.Lock()
	changed := make(map[string][]Metadata, len(s.dirty))
	for metric := range s.dirty {
		changed[metric] = slices.Clone(s.metrics[metric])
	}
	s.mu.Unlock()
	var muts []storage.RowMutation
	apply := func() error {
		if err := s.table.Apply(ctx, muts); err != nil {
			return fmt.Errorf("write metadata: %w", err)
		}
		muts = muts[:0]
		return nil
	}
	for metric, entries := range changed {
		key := keyschema.AppendEscaped([]byte(metadataPrefix), metric)
		entry, err := s.cell(key).Entry(entries)
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

// emit adds the entries that the table lacks to a checkpoint of the log.
func (s *metadataStore) emit(emit func(kind byte, payload []byte) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var payload []byte
	for metric := range s.dirty {
		for _, m := range slices.Backward(s.metrics[metric]) {
			payload = record.AppendMetadata(payload, record.Metadata{Metric: metric, Type: m.Type, Help: m.Help, Unit: m.Unit})
		}
		if len(payload) >= metadataRecordBytes {
			if err := emit(record.KindMetadata, payload); err != nil {
				return err
			}
			payload = payload[:0]
		}
	}
	if len(payload) == 0 {
		return nil
	}
	return emit(record.KindMetadata, payload)
}

// dropTenant removes the descriptions of metrics whose stored names begin with a tenant's prefix, which is not empty. It is
// durable after the next Sync of the store.
func (s *metadataStore) dropTenant(ctx context.Context, prefix string) error {
	s.mu.Lock()
	for metric := range s.metrics {
		if strings.HasPrefix(metric, prefix) {
			delete(s.metrics, metric)
			delete(s.dirty, metric)
			s.targetCount -= len(s.targets[metric])
			delete(s.targets, metric)
		}
	}
	delete(s.byTenant, prefix)
	s.mu.Unlock()
	start := keyschema.AppendEscaped([]byte(metadataPrefix), prefix)
	if err := s.table.DropRows(ctx, storage.RowRange{Start: start, End: append(slices.Clone(start), '\xff')}); err != nil {
		return fmt.Errorf("remove metadata of a tenant: %w", err)
	}
	return nil
}

// ofTenant counts the described metrics of a tenant.
func (s *metadataStore) ofTenant(prefix string) (metrics int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byTenant[prefix]
}

// cell returns the cell that stores the descriptions of a metric.
func (s *metadataStore) cell(key []byte) jsoncell.Cell {
	return jsoncell.Cell{Row: string(key), Qualifier: metadataQualifier,
		BytesMax: jsoncell.BytesMax + metadataEntriesMax*metadataEscapeMax*s.limits.MetadataBytesMax}
}

// restore takes a metric's entries from the table unless a sender has changed them meanwhile. It refuses entries over the
// limits: a server with other limits may have stored them.
func (s *metadataStore) restore(metric string, entries []Metadata) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(entries) > metadataEntriesMax {
		return fmt.Errorf("%d descriptions, at most %d are allowed", len(entries), metadataEntriesMax)
	}
	for _, m := range entries {
		if reason := s.fault(remotewrite.Metadata{Metric: metric, Type: m.Type, Help: m.Help, Unit: m.Unit}); reason != "" {
			return errors.New(reason)
		}
	}
	if _, changed := s.dirty[metric]; !changed && len(entries) > 0 {
		s.count(metric)
		s.metrics[metric] = entries
	}
	return nil
}

// load reads the table's entries. It skips entries that do not parse or exceed the limits, so that a faulty description does
// not prevent a start.
func (s *metadataStore) load(ctx context.Context) error {
	rows := s.table.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{
		{Start: []byte(metadataPrefix), End: []byte(metadataEnd)},
	}}, storage.ReadOptions{Filter: storage.Filter{Families: []string{storage.FamilyMeta}, VersionsMax: 1}})
	faults, first := 0, error(nil)
	for rows.Next() {
		row := rows.Row()
		if err := s.loadRow(&row); err != nil {
			faults++
			if first == nil {
				first = err
			}
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	if faults > 0 {
		s.logger.Warn("skipping metadata of some metrics", "metrics", faults, "first", first)
	}
	return nil
}

func (s *metadataStore) loadRow(row *storage.Row) error {
	at := s.cell(row.Key)
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
		if err := s.restore(metric, entries); err != nil {
			return at.Corrupt(err)
		}
	}
	return nil
}
