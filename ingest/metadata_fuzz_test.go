package ingest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"halite/ingest/remotewrite"
	"halite/storage"
	"halite/storage/storagetest"
)

// describing is a store over a table with one row of metadata.
func describing(t *testing.T, suffix string, value []byte) (*metadataStore, *bytes.Buffer) {
	meta, err := storagetest.NewModel(time.Now).EnsureTable(t.Context(), storage.MetaSchema())
	if err != nil {
		t.Fatal(err)
	}
	if meta.Apply(t.Context(), []storage.RowMutation{{Key: []byte(metadataPrefix + suffix), Entries: []storage.Entry{
		{Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: []byte(metadataQualifier), Value: value}}}}) != nil {
		t.Skip("no row that a table takes")
	}
	log := new(bytes.Buffer)
	return newMetadataStore(meta, Limits{}.withDefaults(1), slog.New(slog.NewTextHandler(log, nil))), log
}

// FuzzMetadata checks that any row of metadata is accepted within the limits, or skipped with a log line. New entries
// can be added, and other servers read them.
func FuzzMetadata(f *testing.F) {
	const one = `{"type":"counter","help":"h","unit":"s"}`
	f.Add("up", []byte("["+one+"]"))
	f.Add("a%23b", []byte("["+strings.Repeat(one+",", 9)+one+"]"))
	f.Add("%zz", []byte(`[]`))
	f.Add("up", []byte(`[{"type":"`+strings.Repeat("\\u0000", 5000)+`"}]`))
	f.Add("up", []byte(`{"version":2}`))
	f.Add("up", []byte(`null`))
	f.Add("", []byte(`[{}]`))
	f.Fuzz(func(t *testing.T, suffix string, value []byte) {
		i, log := describing(t, suffix, value)
		if err := i.load(t.Context()); err != nil {
			t.Fatal(err)
		}
		taken, logged := len(i.metrics), log.String()
		var list []any
		empty := json.Unmarshal(value, &list) == nil && len(list) == 0
		if taken > 0 && logged != "" || taken == 0 && logged == "" && !empty {
			t.Fatalf("%d metrics, log %s", taken, logged)
		}
		if logged != "" && !strings.Contains(logged, "table meta, row ") {
			t.Fatal(logged)
		}
		for metric, entries := range i.metrics {
			if len(entries) == 0 || len(entries) > metadataEntriesMax {
				t.Fatalf("%d entries", len(entries))
			}
			for _, m := range entries {
				if len(m.Type)+len(m.Help)+len(m.Unit) > i.limits.MetadataBytesMax {
					t.Fatalf("%+v", m)
				}
			}
			i.put(metric, Metadata{Type: "gauge", Help: "news"})
			if err := i.persist(t.Context()); err != nil {
				t.Fatal(err)
			}
			other := newMetadataStore(i.table, i.limits, i.logger)
			if err := other.load(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got, want := other.get(metric, 0), i.get(metric, 0); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%v is read as %v", want, got)
			}
		}
	})
}

// Metadata that other servers with wider limits have stored is left out, metric by metric, with one log line.
func TestMetadataBeyondTheLimitsIsLeftOut(t *testing.T) {
	i, log := describing(t, "up", []byte(`[{"type":"gauge","help":"`+strings.Repeat("x", 5000)+`"}]`))
	i.limits.MetadataMetricsMax = 2
	for _, metric := range []string{"a", "b", "c"} {
		i.put(metric, Metadata{Type: "gauge"})
	}
	if err := i.persist(t.Context()); err != nil {
		t.Fatal(err)
	}
	i = newMetadataStore(i.table, i.limits, i.logger)
	if err := i.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	logged := log.String()
	if len(i.metrics) != 2 || strings.Count(logged, "\n") != 1 || !strings.Contains(logged, "metrics=2") ||
		!strings.Contains(logged, ReasonMetadataLimit) {
		t.Fatalf("%v\n%s", i.metrics, logged)
	}
	if i.fault(remotewrite.Metadata{Metric: "d", Type: "gauge"}) != ReasonMetadataLimit {
		t.Fatal("the limit is not reached")
	}
}
