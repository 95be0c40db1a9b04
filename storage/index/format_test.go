package index

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/compaction"
	"halite/storage/index/envelope"
	"halite/storage/index/journal"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
	"halite/storage/index/valueid"
)

// exampleDay is the day drawn in FORMAT.md, first as a journal, then as a segment.
func exampleDay(t testing.TB) (written, stored []placedCell) {
	w := newWorld(t, 1)
	w.layout = segment.DefaultLayout()
	w.x.store.Layout = w.layout
	for _, s := range []struct {
		ls    labels.Labels
		hours []int64
	}{
		{labels.FromStrings(model.MetricNameLabel, "up", "instance", "a:9100", "job", "node"), []int64{5, 6}},
		{labels.FromStrings(model.MetricNameLabel, "requests", "code", "500", "job", "web"), []int64{5}},
		{labels.FromStrings(model.MetricNameLabel, "requests", "code", "200", "job", "web"), []int64{5, 6}},
	} {
		ref, _, err := w.x.Add(s.ls)
		require.NoError(t, err)
		for _, h := range s.hours {
			w.x.MarkActive(ref, baseDay*24+h)
		}
	}
	require.NoError(t, w.x.Persist(context.Background()))
	written = w.storedCells()
	w.advance(48 * time.Hour)
	require.True(t, w.maintain())
	stored = w.storedCells()
	m, err := w.store.Table(context.Background(), storage.TableMeta)
	require.NoError(t, err)
	tags := []keyschema.Tag{{Name: "code", Value: "200"}, {Name: "job", Value: "web"}}
	mut := journal.LabelSetMutation("0123456789abcdef0123456789abcdef01234567", tags)
	e := mut.Entries[0]
	cell := storage.Cell{Family: e.Family, Qualifier: e.Qualifier, Value: e.Value}
	return written, append(stored, placedCell{m, mut.Key, cell})
}

// exampleMonth is the month drawn in FORMAT.md: its manifest and its only block, compacted from the day above and the next.
func exampleMonth(t testing.TB) (out []placedCell) {
	w := newWorld(t, 1)
	w.layout = segment.DefaultLayout()
	w.layout.Months.DaysMin = 2
	w.x.store.Layout = w.layout
	for _, s := range []struct {
		ls    labels.Labels
		hours []int64
	}{
		{labels.FromStrings(model.MetricNameLabel, "up", "instance", "a:9100", "job", "node"), []int64{5, 6, 24 + 5, 24 + 6}},
		{labels.FromStrings(model.MetricNameLabel, "up", "instance", "b:9100", "job", "node"), []int64{24 + 23}},
	} {
		ref, _, err := w.x.Add(s.ls)
		require.NoError(t, err)
		for _, h := range s.hours {
			w.x.MarkActive(ref, baseDay*24+h)
		}
	}
	w.advance(72 * time.Hour)
	require.True(t, w.maintain())
	for _, c := range w.storedCells() {
		if c.cell.TsMs == presence.MonthOf(baseDay).CellMs() && c.table.Schema().Name == storage.TableSeries {
			out = append(out, c)
		}
	}
	return out
}

// exampleDrop is the manifest of the day drawn in FORMAT.md after its metric was dropped.
func exampleDrop(t testing.TB) (out []placedCell) {
	w := newWorld(t, 1)
	w.layout = segment.DefaultLayout()
	w.x.store.Layout = w.layout
	for _, code := range []string{"500", "200"} {
		ref, _, err := w.x.Add(labels.FromStrings(model.MetricNameLabel, "requests", "code", code, "job", "web"))
		require.NoError(t, err)
		w.x.MarkActive(ref, baseDay*24+5)
		w.x.MarkActive(ref, baseDay*24+6)
	}
	require.NoError(t, w.x.Persist(context.Background()))
	w.advance(48 * time.Hour)
	require.True(t, w.maintain())
	d := w.x.StartDrop()
	require.NoError(t, d.Segments(context.Background(), "requests", baseDay*24, baseDay*24+23))
	d.Close()
	for _, c := range w.storedCells() {
		if string(c.cell.Qualifier) == string(rune(segment.QualManifest)) {
			out = append(out, c)
		}
	}
	require.Len(t, out, 1)
	return out
}

func dump(cells []placedCell) string {
	var b strings.Builder
	for _, c := range cells {
		fmt.Fprintf(&b, "%s %s %q\n", c.table.Schema().Name, c.key, c.cell.Qualifier)
		for line := range strings.Lines(hex.Dump(c.cell.Value)) {
			fmt.Fprintf(&b, "  %s", line[4:])
		}
	}
	return b.String()
}

// TestFormat compares the stored bytes with FORMAT.md.
func TestFormat(t *testing.T) {
	doc, err := os.ReadFile("FORMAT.md")
	require.NoError(t, err)
	journal, stored := exampleDay(t)
	for _, part := range []string{dump(journal), dump(stored), dump(exampleMonth(t)), dump(exampleDrop(t))} {
		if !strings.Contains(string(doc), "```\n"+part+"```\n") {
			t.Errorf("FORMAT.md does not contain\n%s", part)
		}
	}
}

// parsers has a parser for each kind of payload. Its second result encodes the parsed value.
var parsers = []struct {
	name  string
	parse func(p []byte) (any, func() []byte, error)
}{
	{"manifest", func(p []byte) (any, func() []byte, error) {
		v, err := segment.ParseManifest(p, envelope.FormatV2, presence.DayPartition(1))
		return v, func() []byte { return segment.AppendManifest(nil, v) }, err
	}},
	{"manifest with dropped metrics", func(p []byte) (any, func() []byte, error) {
		v, err := segment.ParseManifest(p, envelope.FormatV3, presence.DayPartition(1))
		return v, func() []byte { return segment.AppendManifest(nil, v) }, err
	}},
	{"month manifest", func(p []byte) (any, func() []byte, error) {
		v, err := segment.ParseManifest(p, envelope.FormatV2, presence.MonthPartition(1))
		return v, func() []byte { return segment.AppendManifest(nil, v) }, err
	}},
	{"dictionary", func(p []byte) (any, func() []byte, error) {
		v, err := segment.ParseDictHeader(p)
		return v, func() []byte { return segment.AppendDictHeader(nil, v) }, err
	}},
	{"values", func(p []byte) (any, func() []byte, error) {
		c := envelope.Decoder{Rest: p}
		n := c.Number(1 << 20)
		v, err := segment.ParseValueChunk(p, 7, 7+n, 5)
		if err != nil {
			return nil, nil, err
		}
		values, sets, touched := []string{}, []uint32{}, []uint32{}
		for id := v.First; id < v.First+v.Count; id++ {
			values, sets = append(values, v.Value(id)), append(sets, v.Sets.At(id-v.First))
			touched = append(touched, v.Masks[v.Touched.At(id-v.First)])
		}
		return []any{values, sets, touched}, func() []byte { return segment.AppendValueChunk(nil, values, sets, touched) }, nil
	}},
	{"sets", func(p []byte) (any, func() []byte, error) {
		c := envelope.Decoder{Rest: p}
		v, err := segment.ParseSetChunk(p, 3, 3+c.Number(1<<20), 100)
		if err != nil {
			return nil, nil, err
		}
		return v.Sets, func() []byte { return segment.AppendSetChunk(nil, v.Sets) }, nil
	}},
	{"block", func(p []byte) (any, func() []byte, error) {
		return parseInline(p, presence.DayPartition(1))
	}},
	{"month block", func(p []byte) (any, func() []byte, error) {
		return parseInline(p, presence.MonthPartition(1))
	}},
}

func parseInline(p []byte, partition presence.Partition) (any, func() []byte, error) {
	v, inline, err := segment.ParseBlockHeader(p, partition, 1, 9, 20)
	if err != nil || !inline {
		return nil, nil, envelope.ErrRange
	}
	return v, func() []byte { return segment.AppendBlockHeader(nil, v, partition, true) }, nil
}

// FuzzParse feeds arbitrary bytes to every parser. None panics, and an accepted value survives a round trip.
func FuzzParse(f *testing.F) {
	journal, stored := exampleDay(f)
	for _, c := range slices.Concat(journal, stored, exampleMonth(f), exampleDrop(f)) {
		for kind := range parsers {
			f.Add(kind, c.cell.Value[1:len(c.cell.Value)-4])
		}
	}
	f.Fuzz(func(t *testing.T, kind int, payload []byte) {
		p := parsers[uint(kind)%uint(len(parsers))]
		v, again, err := p.parse(payload)
		if err != nil {
			return
		}
		w, _, err := p.parse(again())
		if err != nil {
			t.Fatalf("%s: the parser accepts a value but not its own encoding of it: %v", p.name, err)
		}
		if b, ok := v.(*segment.Block); ok {
			sameBlock(t, b, w.(*segment.Block))
			return
		}
		if !reflect.DeepEqual(v, w) {
			t.Fatalf("%s: %#v became %#v", p.name, v, w)
		}
	})
}

// sameBlock compares blocks row by row, up to a number of rows.
func sameBlock(t *testing.T, a, b *segment.Block) {
	if a.Rows != b.Rows || !reflect.DeepEqual(a.Metrics, b.Metrics) || len(a.Columns) != len(b.Columns) {
		t.Fatalf("%#v became %#v", a, b)
	}
	for row := range min(a.Rows, 1000) {
		x, errX := a.PatternNumber(row)
		y, errY := b.PatternNumber(row)
		if x != y || (errX == nil) != (errY == nil) || errX == nil && !slices.Equal(a.Pattern(x), b.Pattern(y)) {
			t.Fatalf("hours of row %d differ", row)
		}
		for i := range a.Columns {
			if a.Columns[i].IDs.At(row) != b.Columns[i].IDs.At(row) {
				t.Fatalf("row %d of column %d differs", row, i)
			}
		}
	}
	set := valueid.NewSet(100)
	set.Add(3)
	for i := range a.Columns {
		_ = a.Columns[i].IDs.Filter(nil, 0, min(a.Rows, 1000), set)
	}
}

// FuzzSeal: a sealed value opens only unchanged and at its own key.
func FuzzSeal(f *testing.F) {
	f.Add([]byte("payload"), []byte("row"), []byte("q"), uint16(3))
	f.Fuzz(func(t *testing.T, payload, key, qualifier []byte, at uint16) {
		blob := envelope.Seal(append(envelope.New(envelope.FormatV1, 0), payload...), key, qualifier)
		got, err := envelope.Open(blob, key, qualifier)
		if err != nil || string(got) != string(payload) {
			t.Fatalf("%x, %v", got, err)
		}
		if _, err := envelope.Open(blob, append(key, 'x'), qualifier); err == nil {
			t.Fatal("opened in another row")
		}
		blob[int(at)%len(blob)] ^= 1
		if _, err := envelope.Open(blob, key, qualifier); err == nil {
			t.Fatal("opened after a change")
		}
		_, _ = envelope.Open(payload, key, qualifier)
		_, _, _, _ = segment.ParseKey(key)
		_, _ = compaction.ParseGeneration(payload)
	})
}
