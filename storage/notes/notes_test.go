package notes_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/notes"
	"halite/storage/storagetest"
)

func opened(t testing.TB) (*notes.Store, *int) {
	t.Helper()
	store := storagetest.NewModel(time.Now)
	meta, err := store.EnsureTable(t.Context(), storage.MetaSchema())
	require.NoError(t, err)
	flushed := new(int)
	return notes.New(meta, func(context.Context) error { *flushed++; return nil }), flushed
}

// put stores an annotation with a text.
func put(t testing.TB, s *notes.Store, series string, startMs int64, text string) {
	t.Helper()
	_, err := s.Change(t.Context(), series, startMs, func(a notes.Annotation, _ bool) (notes.Annotation, error) {
		a.Description = text
		return a, nil
	})
	require.NoError(t, err)
}

func TestAnnotations(t *testing.T) {
	t.Parallel()
	s, flushed := opened(t)
	ctx := t.Context()
	for _, at := range []int64{1, 20, 300} {
		put(t, s, "", at, "all")
		put(t, s, "AB", at, "ab")
		put(t, s, "ABCD", at, "abcd")
	}
	require.Equal(t, 9, *flushed, "each change is durable")
	list, err := s.Annotations(ctx, "AB", 1, 20, 10)
	require.NoError(t, err)
	require.Equal(t, []notes.Annotation{
		{TSUID: "AB", StartMs: 1, Description: "ab"}, {TSUID: "AB", StartMs: 20, Description: "ab"},
	}, list)
	list, err = s.Annotations(ctx, "", 2, 1<<40, 10)
	require.NoError(t, err)
	require.Len(t, list, 2)
	_, err = s.Annotations(ctx, "", 0, 300, 2)
	require.ErrorIs(t, err, notes.ErrTooMany)

	put(t, s, "AB", 20, "changed")
	a, found, err := s.Annotation(ctx, "AB", 20)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "changed", a.Description)
	_, found, err = s.Annotation(ctx, "AB", 21)
	require.NoError(t, err)
	require.False(t, found)

	series, err := s.Series(ctx, 20, 299)
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"AB": true, "ABCD": true}, series)
	n, err := s.Delete(ctx, "AB", 0, 20)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	n, err = s.Sweep(ctx, func(string) int64 { return 300 })
	require.NoError(t, err)
	require.Equal(t, 4, n) // two of all, two of ABCD
	series, err = s.Series(ctx, 0, 1000)
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"AB": true, "ABCD": true}, series)
}

// TestChangeDuringSweep: a sweep does not delete an annotation that somebody extends after the sweep has read it.
func TestChangeDuringSweep(t *testing.T) {
	t.Parallel()
	s, _ := opened(t)
	put(t, s, "AB", 5, "old")
	changed := make(chan error, 1)
	_, err := s.Sweep(t.Context(), func(string) int64 {
		go func() {
			_, err := s.Change(t.Context(), "AB", 5, func(a notes.Annotation, _ bool) (notes.Annotation, error) {
				a.EndMs = 1000
				return a, nil
			})
			changed <- err
		}()
		select {
		case err := <-changed: // the sweep allows changes, and must see this one
			changed <- err
		case <-time.After(20 * time.Millisecond):
		}
		return 300
	})
	require.NoError(t, err)
	require.NoError(t, <-changed)
	a, found, err := s.Annotation(t.Context(), "AB", 5)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, int64(1000), a.EndMs)
}

// TestTenants: no tenant sees or changes the notes of another one.
func TestTenants(t *testing.T) {
	t.Parallel()
	s, _ := opened(t)
	acme := s.ForTenant("&acme&")
	put(t, s, "AB", 5, "ours")
	put(t, acme, "AB", 5, "theirs")
	for _, of := range []struct {
		*notes.Store
		want string
	}{{s, "ours"}, {acme, "theirs"}} {
		list, err := of.Annotations(t.Context(), "AB", 0, 10, 10)
		require.NoError(t, err)
		require.Equal(t, []notes.Annotation{{TSUID: "AB", StartMs: 5, Description: of.want}}, list)
	}
	n, err := acme.Delete(t.Context(), "AB", 0, 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	series, err := acme.Series(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Empty(t, series)
	put(t, acme, "", 5, "old")
	n, err = s.Sweep(t.Context(), func(string) int64 { return 6 })
	require.NoError(t, err)
	require.Equal(t, 2, n)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s, flushed := opened(t)
	refused := errors.New("refused")
	_, err := s.Change(t.Context(), "", 1, func(notes.Annotation, bool) (a notes.Annotation, err error) { return a, refused })
	require.ErrorIs(t, err, refused)
	_, err = s.Change(t.Context(), "", 1, func(notes.Annotation, bool) (notes.Annotation, error) {
		return notes.Annotation{Notes: strings.Repeat("x", notes.DocumentBytesMax)}, nil
	})
	require.ErrorIs(t, err, storage.ErrBadMutation)
	require.Zero(t, *flushed)
}

func TestDescriptions(t *testing.T) {
	t.Parallel()
	s, _ := opened(t)
	var document struct{ Text string }
	require.NoError(t, s.ChangeDescription(t.Context(), "metric", "01", &document, func() error {
		document.Text = "x"
		return nil
	}))
	document.Text = ""
	found, err := s.ReadDescription(t.Context(), "metric", "01", &document)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "x", document.Text)
	found, err = s.ReadDescription(t.Context(), "tagk", "01", &document)
	require.NoError(t, err)
	require.False(t, found)
	require.NoError(t, s.DeleteDescription(t.Context(), "metric", "01"))
	found, err = s.ReadDescription(t.Context(), "metric", "01", &document)
	require.NoError(t, err)
	require.False(t, found)
}

// FuzzDocument reads a cell of any bytes. The cell is damaged, or an annotation.
func FuzzDocument(f *testing.F) {
	f.Add([]byte(`{"startMs":5,"description":"d","custom":{"a":"b"}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, value []byte) {
		if len(value) > 1<<10 {
			return
		}
		meta, err := storagetest.NewModel(time.Now).EnsureTable(t.Context(), storage.MetaSchema())
		require.NoError(t, err)
		require.NoError(t, meta.Apply(t.Context(), []storage.RowMutation{{
			Key: []byte("annotation###000000000000005"), Entries: []storage.Entry{
				{Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: []byte("document"), Value: value},
			},
		}}))
		_, err = notes.New(meta, nil).Annotations(t.Context(), "", 0, 10, 10)
		if err != nil {
			require.True(t, errors.Is(err, storage.ErrCorrupt) || errors.Is(err, storage.ErrSchemaMismatch), err)
		}
	})
}
