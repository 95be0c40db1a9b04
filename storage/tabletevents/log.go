package tabletevents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"halite/storage"
	"halite/storage/jsoncell"
)

// Options of a Log. The zero value has the defaults.
type Options struct {
	// EventsMax bounds the events of this server. The Log drops the oldest first. Default EventsMaxDefault.
	EventsMax int
	// Age is the age above which the Log drops events. Default AgeDefault.
	Age time.Duration
	// Shared means that other servers write to the same table meta, so that List includes their events.
	Shared bool
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Defaults of Options.
const (
	EventsMaxDefault = 1000
	AgeDefault       = 28 * 24 * time.Hour
)

// keyBytesMax bounds the key of an event, so that all events fit into their cell. Longer keys are truncated.
const keyBytesMax = 1 << 10

// Event is a change of tablets at a time, milliseconds since 1970.
type Event struct {
	TMs    int64  `json:"tMs"`
	Kind   string `json:"kind"`
	Table  string `json:"table"`
	Key    []byte `json:"key"`
	Reason string `json:"reason"`
}

// Log has the events. Its methods may be called concurrently. A nil Log has none.
type Log struct {
	opts Options

	mu     sync.Mutex
	events []Event // by time
	dirty  bool
	starts map[string]map[string]bool // by table, of the last list of tablets

	// Set by Open.
	meta   storage.Table
	server string
}

// New returns a Log in memory. Open connects it with table meta.
func New(o Options) (*Log, error) {
	o.EventsMax, o.Age = cmp.Or(o.EventsMax, EventsMaxDefault), cmp.Or(o.Age, AgeDefault)
	if o.EventsMax < 0 || o.Age < 0 {
		return nil, fmt.Errorf("tabletevents: EventsMax is %d and Age is %s; neither may be negative", o.EventsMax, o.Age)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Log{opts: o, starts: map[string]map[string]bool{}}, nil
}

const (
	rowPrefix = "tabletevents#"
	rowsEnd   = "tabletevents$"
	// cellBytesMax bounds the events of a server in table meta.
	cellBytesMax = 8 << 20
)

func cellOf(server string) jsoncell.Cell {
	return jsoncell.Cell{Row: rowPrefix + server, Qualifier: "events", BytesMax: cellBytesMax}
}

// Open reads the events of an earlier process. server names this server in table meta.
func (l *Log) Open(ctx context.Context, meta storage.Table, server string) error {
	var saved []Event
	if _, err := cellOf(server).Read(ctx, meta, &saved); err != nil {
		return fmt.Errorf("read the history of tablets: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.meta, l.server = meta, server
	l.events = append(saved, l.events...)
	l.evict()
	return nil
}

// Add adds a change that happens now.
func (l *Log) Add(c storage.TabletChange) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(c)
}

func (l *Log) add(c storage.TabletChange) {
	key := slices.Clone(c.Key[:min(len(c.Key), keyBytesMax)])
	l.events = append(l.events, Event{l.opts.Now().UnixMilli(), c.Kind, c.Table, key, c.Reason})
	l.dirty = true
	l.evict()
}

// evict sorts the events and removes the oldest. The caller holds mu.
func (l *Log) evict() {
	slices.SortStableFunc(l.events, byTime)
	first := max(0, len(l.events)-l.opts.EventsMax)
	oldestMs := l.opts.Now().Add(-l.opts.Age).UnixMilli()
	for first < len(l.events) && l.events[first].TMs < oldestMs {
		first++
	}
	if first > 0 {
		l.events = slices.Clone(l.events[first:])
		l.dirty = true
	}
}

func byTime(a, b Event) int { return cmp.Compare(a.TMs, b.TMs) }

// Compare compares the tablets of a table with the list of the last call, and adds the differences. The first call only
// stores the list.
func (l *Log) Compare(table string, tablets []storage.Tablet) {
	now := make(map[string]bool, len(tablets))
	for _, t := range tablets {
		now[string(t.Range.Start)] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.starts[table]
	l.starts[table] = now
	if before == nil {
		return
	}
	for _, t := range tablets {
		if !before[string(t.Range.Start)] {
			l.add(storage.TabletChange{Kind: storage.TabletSplit, Table: table, Key: t.Range.Start,
				Reason: "the storage service has split a tablet at this key"})
		}
	}
	for key := range before {
		if !now[key] {
			l.add(storage.TabletChange{Kind: storage.TabletMerge, Table: table, Key: []byte(key),
				Reason: "the storage service has merged the tablet with its predecessor"})
		}
	}
}

// Save writes the events to table meta if there are new ones. The caller calls it each minute and at the end.
func (l *Log) Save(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	meta, server, dirty, events := l.meta, l.server, l.dirty, slices.Clone(l.events)
	l.dirty = false
	l.mu.Unlock()
	if meta == nil || !dirty {
		return nil
	}
	if err := cellOf(server).Write(ctx, meta, events); err != nil {
		l.mu.Lock()
		l.dirty = true
		l.mu.Unlock()
		return fmt.Errorf("save the history of tablets: %w", err)
	}
	return nil
}

// List returns the events with fromMs ≤ time < toMs, the oldest first.
func (l *Log) List(ctx context.Context, fromMs, toMs int64) ([]Event, error) {
	if l == nil {
		return nil, nil
	}
	l.mu.Lock()
	l.evict()
	all, shared := slices.Clone(l.events), l.opts.Shared && l.meta != nil
	l.mu.Unlock()
	if shared {
		others, err := l.others(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the history of other servers: %w", err)
		}
		all = append(all, others...)
	}
	all = slices.DeleteFunc(all, func(e Event) bool { return e.TMs < fromMs || e.TMs >= toMs })
	slices.SortStableFunc(all, byTime)
	return all, nil
}

// others reads the events of other servers, and removes rows of servers whose last event is too old.
func (l *Log) others(ctx context.Context) (out []Event, err error) {
	var ended []storage.RowMutation
	oldestMs := l.opts.Now().Add(-l.opts.Age).UnixMilli()
	it := l.meta.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{Start: []byte(rowPrefix), End: []byte(rowsEnd)}}},
		storage.ReadOptions{Filter: storage.Filter{Families: []string{storage.FamilyMeta}, VersionsMax: 1}})
	for it.Next() {
		row := it.Row()
		server := strings.TrimPrefix(string(row.Key), rowPrefix)
		if server == l.server || len(row.Cells) != 1 {
			continue
		}
		var events []Event
		if err := cellOf(server).Decode(row.Cells[0].Value, &events); err != nil {
			return nil, errors.Join(err, it.Close())
		}
		events = slices.DeleteFunc(events, func(e Event) bool { return e.TMs < oldestMs })
		if len(events) == 0 {
			ended = append(ended, storage.RowMutation{
				Key: slices.Clone(row.Key), Entries: []storage.Entry{{Kind: storage.DeleteRow}},
			})
		}
		out = append(out, events...)
	}
	if err := errors.Join(it.Err(), it.Close()); err != nil {
		return nil, err
	}
	if len(ended) > 0 {
		err = l.meta.Apply(ctx, ended)
	}
	return out, err
}
