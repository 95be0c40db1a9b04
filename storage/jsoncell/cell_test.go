package jsoncell_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/jsoncell"
	"halite/storage/storagetest"
)

// content has one member of each JSON type.
type content struct {
	Name string           `json:"name"`
	Days map[string]int64 `json:"days,omitempty"`
	List []content        `json:"list,omitempty"`
	Time time.Time        `json:"time"`
}

func meta(t testing.TB) storage.Table {
	t.Helper()
	table, err := storagetest.NewModel(time.Now).EnsureTable(t.Context(), storage.MetaSchema())
	require.NoError(t, err)
	return table
}

func TestWriteThenRead(t *testing.T) {
	table, cell := meta(t), jsoncell.Cell{Row: "r", Qualifier: "q"}
	var got content
	found, err := cell.Read(t.Context(), table, &got)
	require.NoError(t, err)
	require.False(t, found)
	want := content{Name: "é\x00", Days: map[string]int64{"a": -1 << 62}, List: []content{{Name: "b"}}, Time: time.Unix(7, 0).UTC()}
	require.NoError(t, jsoncell.Cell{Row: "r", Qualifier: "q2"}.Write(t.Context(), table, []int{1}))
	require.NoError(t, jsoncell.Cell{Row: "r", Qualifier: ""}.Write(t.Context(), table, "another"))
	require.NoError(t, cell.Write(t.Context(), table, want))
	found, err = cell.Read(t.Context(), table, &got)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, want, got)
}

func TestErrorsNameTheCell(t *testing.T) {
	cell := jsoncell.Cell{Row: "the row", Qualifier: "the qualifier", BytesMax: 64, Remedy: "fix it"}
	for _, bad := range []struct {
		value, says string
		is          error
	}{
		{``, "unexpected end of JSON input", storage.ErrCorrupt},
		{`{"name":"x"}}`, "invalid character '}'", storage.ErrCorrupt},
		{`{"name":7}`, "cannot unmarshal number", storage.ErrCorrupt},
		{`[]`, "cannot unmarshal array", storage.ErrCorrupt},
		{`{"version":"x"}`, "cannot unmarshal string", storage.ErrCorrupt},
		{`{"version":-1}`, "version -1", storage.ErrCorrupt},
		{`{"name":"` + strings.Repeat("x", 64) + `"}`, "75 bytes, at most 64 are allowed", storage.ErrCorrupt},
		{"\n" + ` {"version":2,"name":7}`, "the document has version 2, this build reads up to 1: use the build",
			storage.ErrSchemaMismatch},
	} {
		err := cell.Decode([]byte(bad.value), new(content))
		require.ErrorIs(t, err, bad.is, bad.value)
		require.ErrorContains(t, err, `table meta, row "the row", qualifier "the qualifier"`)
		require.ErrorContains(t, err, bad.says)
		require.Equal(t, bad.is == storage.ErrCorrupt, strings.HasSuffix(err.Error(), "; fix it"), err.Error())
	}
	require.NoError(t, cell.Decode([]byte(`{"version":1,"later":[1]}`), new(content)), "members of newer builds are ignored")
	require.ErrorIs(t, cell.Decode([]byte(`{"version":2}`), new([]int)),
		storage.ErrSchemaMismatch, "a newer version of a list is an object")

	err := cell.Write(t.Context(), meta(t), content{Name: strings.Repeat("x", 64)})
	require.ErrorIs(t, err, storage.ErrBadMutation)
	require.ErrorContains(t, err, `row "the row", qualifier "the qualifier": a document of`)
	long := jsoncell.Cell{Row: strings.Repeat("x", 4000)}.Corrupt(errors.New("bad"))
	require.Less(t, len(long.Error()), 300)
}

// FuzzDecode checks that any bytes decode or give an error that names the cell, and that a document survives a round trip.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"name":"x","days":{"a":1},"list":[{"name":"y"}],"time":"2026-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"version":1}`))
	f.Add([]byte(`{"version":9223372036854775807,"list":7}`))
	f.Add([]byte(` [{"version":3}]`))
	f.Add([]byte(`null`))
	f.Add([]byte(strings.Repeat(`{"list":[`, 2000)))
	f.Add([]byte("\xef\xbb\xbf{}"))
	f.Fuzz(func(t *testing.T, value []byte) {
		cell := jsoncell.Cell{Row: "row", Qualifier: "qualifier", BytesMax: 64 << 10}
		var got content
		if err := cell.Decode(value, &got); err != nil {
			known := errors.Is(err, storage.ErrCorrupt) || errors.Is(err, storage.ErrSchemaMismatch)
			if !known || !strings.Contains(err.Error(), cell.String()) {
				t.Fatal(err)
			}
			return
		}
		if len(value) > cell.BytesMax {
			t.Fatalf("decoded %d bytes", len(value))
		}
		e, err := jsoncell.Cell{Row: "row", BytesMax: 8 * cell.BytesMax}.Entry(got)
		if err != nil {
			t.Skip(err) // JSON cannot encode the zone of this time
		}
		var again content
		if err := (jsoncell.Cell{BytesMax: 8 * cell.BytesMax}).Decode(e.Value, &again); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(again) != fmt.Sprint(got) {
			t.Fatalf("%v reads back as %v", got, again)
		}
	})
}
