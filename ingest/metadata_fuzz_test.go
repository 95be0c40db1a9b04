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

// describing is an intake over a table with one row of metadata.
func describing(t *testing.T, suffix string, value []byte) (*intake, *bytes.Buffer) {
	meta, err := storagetest.NewModel(time.Now).EnsureTable(t.Context(), storage.MetaSchema())
	if err != nil {
		t.Fatal(err)
	}
	if meta.Apply(t.Context(), []storage.RowMutation{{Key: []byte(metadataPrefix + suffix), Entries: []storage.Entry{
		{Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: []byte(metadataQualifier), Value: value}}}}) != nil {
		t.Skip("no row that a table takes")
	}
	log := new(bytes.Buffer)
	return &intake{meta: meta, metadata: newMetadataStore(), limits: Limits{}.withDefaults(1),
		logger: slog.New(slog.NewTextHandler(log, nil))}, log
}

// FuzzMetadata: whatever a row of metadata holds is taken within the limits, or left out and told of; news can be added and is
// read by others.
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
		if err := i.loadMetadata(t.Context()); err != nil {
			t.Fatal(err)
		}
		taken, told := len(i.metadata.metrics), log.String()
		var list []any
		empty := json.Unmarshal(value, &list) == nil && len(list) == 0
		if taken > 0 && told != "" || taken == 0 && told == "" && !empty {
			t.Fatalf("%d metrics, log %s", taken, told)
		}
		if told != "" && !strings.Contains(told, "table meta, row ") {
			t.Fatal(told)
		}
		for metric, entries := range i.metadata.metrics {
			if len(entries) == 0 || len(entries) > metadataEntriesMax {
				t.Fatalf("%d entries", len(entries))
			}
			for _, m := range entries {
				if len(m.Type)+len(m.Help)+len(m.Unit) > i.limits.MetadataBytesMax {
					t.Fatalf("%+v", m)
				}
			}
			i.metadata.put(metric, Metadata{Type: "gauge", Help: "news"})
			if err := i.persistMetadata(t.Context()); err != nil {
				t.Fatal(err)
			}
			other := &intake{meta: i.meta, metadata: newMetadataStore(), limits: i.limits, logger: i.logger}
			if err := other.loadMetadata(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got, want := other.Metadata(metric, 0), i.Metadata(metric, 0); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%v is read as %v", want, got)
			}
		}
	})
}

// Metadata that other servers with wider limits have stored is left out, one by one, and told of in one line.
func TestMetadataBeyondTheLimitsIsLeftOut(t *testing.T) {
	i, log := describing(t, "up", []byte(`[{"type":"gauge","help":"`+strings.Repeat("x", 5000)+`"}]`))
	i.limits.MetadataMetricsMax = 2
	for _, metric := range []string{"a", "b", "c"} {
		i.metadata.put(metric, Metadata{Type: "gauge"})
	}
	if err := i.persistMetadata(t.Context()); err != nil {
		t.Fatal(err)
	}
	i.metadata = newMetadataStore()
	if err := i.loadMetadata(t.Context()); err != nil {
		t.Fatal(err)
	}
	told := log.String()
	if len(i.metadata.metrics) != 2 || strings.Count(told, "\n") != 1 || !strings.Contains(told, "metrics=2") ||
		!strings.Contains(told, ReasonMetadataLimit) {
		t.Fatalf("%v\n%s", i.metadata.metrics, told)
	}
	if i.metadataFault(remotewrite.Metadata{Metric: "d", Type: "gauge"}) != ReasonMetadataLimit {
		t.Fatal("the limit is not reached")
	}
}
