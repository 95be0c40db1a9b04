package api

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/storagetest"
)

// brokenTablets fails when a caller opens a table.
type brokenTablets struct{ TabletSource }

func (brokenTablets) Table(context.Context, string) (storage.Table, error) {
	return nil, errors.New("disk on fire")
}

func TestTablets(t *testing.T) {
	store := storagetest.NewModel(time.Now)
	table, err := store.EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	require.NoError(t, table.Apply(t.Context(), []storage.RowMutation{{Key: []byte("up#07##9999999"), Entries: []storage.Entry{{
		Kind: storage.SetCell, Family: storage.FamilySamples, Qualifier: []byte("r0000"), Value: []byte("x"),
	}}}}))
	f := newFixture(t, func(o *Options) { o.Tablets = store })
	require.Contains(t, body(t, f.get("/api/v1/status/tablets")),
		`"tables":[{"name":"data","tablets":[{"start":"","end":"","sizeBytes":`)

	none := newFixture(t, func(*Options) {})
	require.Contains(t, body(t, none.get("/api/v1/status/tablets")), `"tables":[],"events":[]}}`)
	require.Equal(t, http.StatusBadRequest, none.get("/api/v1/status/tablets?start=2&end=1").Code)

	broken := newFixture(t, func(o *Options) { o.Tablets = brokenTablets{store} })
	response := broken.get("/api/v1/status/tablets")
	require.Equal(t, http.StatusInternalServerError, response.Code)
	require.Contains(t, body(t, response), "disk on fire")
}

func TestKeyText(t *testing.T) {
	require.Equal(t, `up#07#job=a#9519999`, keyText([]byte("up#07#job=a#9519999")))
	require.Equal(t, `a\x00b`, keyText([]byte("a\x00b")))
	require.Equal(t, "", keyText(nil))
}
