package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/ingest/deletion"
	"halite/keyschema"
	rollupstore "halite/rollup/store"
	"halite/storage/tombstone"
)

type fakeDeleter struct {
	requests []deletion.Request
	clean    int
	err      error
}

func (f *fakeDeleter) DeleteSeries(_ context.Context, d deletion.Request) (int, error) {
	f.requests = append(f.requests, d)
	return 1, f.err
}

func (f *fakeDeleter) CountDeletion(_ context.Context, d deletion.Request) (deletion.Count, error) {
	orphans := rollupstore.Orphans{Hours: 5, Days: 2, Partial: 1}
	return deletion.Count{Series: 1, Samples: 20, Bytes: 300, Orphans: orphans}, f.err
}

func (f *fakeDeleter) CleanTombstones(context.Context) (deletion.Report, error) {
	f.clean++
	return deletion.Report{Tombstones: 2, RowsRewritten: 3, RowsRemoved: 4,
		Tables: []deletion.TableBytes{{Table: "data", Before: 50, After: 6}}}, f.err
}

func TestDeleteSeriesParameters(t *testing.T) {
	deleter := &fakeDeleter{}
	f := newFixture(t, func(o *Options) { o.Deleter, o.AdminAPI = deleter, true })
	const path = "/api/v1/admin/tsdb/delete_series"
	w := f.post(path+"?match[]=up&match[]=%7Bjob%3D%22x%22%7D&start=1700000000.123&end=2023-11-14T22:13:21.456Z", "")
	require.Equal(t, http.StatusNoContent, w.Code)
	require.Empty(t, w.Body.String())
	d := deleter.requests[0]
	require.Equal(t, `{__name__="up"} or {job="x"}`, tombstone.SelectorsText(d.Selectors))
	require.EqualValues(t, 1_700_000_000_123, d.FromMs)
	require.EqualValues(t, 1_700_000_001_456, d.ToMs)
	require.False(t, d.Everything)

	require.Equal(t, http.StatusNoContent, f.post(path+"?match[]=up&all=true", "").Code)
	require.True(t, deleter.requests[1].Everything)
	require.Negative(t, deleter.requests[1].FromMs)
	require.Greater(t, deleter.requests[1].ToMs, int64(1e15))

	w = f.post(path+"?match[]=up&dry_run=1", "")
	require.Equal(t, http.StatusOK, w.Code)
	require.JSONEq(t, `{"status":"success","data":{"series":1,"samples":20,"bytes":300,
		"rollupHours":5,"rollupDays":2,"rollupsCut":1}}`, body(t, w))
	require.Len(t, deleter.requests, 2)

	w = f.post(path+"?match[]=up&report=1", "")
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), `"series":`)
	require.Len(t, deleter.requests, 3)
}

// TestListDeletions pins the response of /api/v1/admin/tsdb/deletions.
func TestListDeletions(t *testing.T) {
	var status deletion.Status
	f := newFixture(t, func(o *Options) {
		o.AdminAPI = true
		o.Deletions = func() deletion.Status { return status }
	})
	const path = "/api/v1/admin/tsdb/deletions"
	require.JSONEq(t, `{"status":"success","data":{"deletions":[],"cleaning":null}}`, body(t, f.get(path)))
	matcher := func(name, value string) []*labels.Matcher {
		return []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, name, value)}
	}
	status = deletion.Status{
		Deletions: []*tombstone.Tombstone{
			{ID: 3, FromMs: 1_700_000_000_123, ToMs: keyschema.TimeMaxMs, MadeMs: 1_700_000_100_000, Pending: true,
				Selectors: [][]*labels.Matcher{matcher("__name__", "up"), matcher("job", "x")}},
			{ID: 4, ToMs: 1_700_000_000_123, MadeMs: 1_700_000_200_000, Selectors: [][]*labels.Matcher{matcher("__name__", "up")}},
		},
		Cleaning: &deletion.Progress{
			Began: time.UnixMilli(1_700_000_300_000), Deletions: 2, RowsRead: 512, RowsRewritten: 7, RowsRemoved: 8,
		},
	}
	require.JSONEq(t, `{"status":"success","data":{"deletions":[
		{"id":3,"selectors":["{__name__=\"up\"}","{job=\"x\"}"],"from":"2023-11-14T22:13:20.123Z",
			"made":"2023-11-14T22:15:00Z","waits":"index"},
		{"id":4,"selectors":["{__name__=\"up\"}"],"to":"2023-11-14T22:13:20.123Z","made":"2023-11-14T22:16:40Z","waits":"rows"}],
		"cleaning":{"began":"2023-11-14T22:18:20Z","deletions":2,"rowsRead":512,"rowsRewritten":7,"rowsRemoved":8}}}`,
		body(t, f.get(path)))
	closed := newFixture(t, func(*Options) {})
	require.Equal(t, http.StatusForbidden, closed.get(path).Code)
}

func TestBadDeletions(t *testing.T) {
	deleter := &fakeDeleter{}
	f := newFixture(t, func(o *Options) { o.Deleter, o.AdminAPI = deleter, true })
	const path = "/api/v1/admin/tsdb/"
	for target, want := range map[string]string{
		"delete_series":                           `no match[] parameter provided`,
		"delete_series?match[]=up&dryrun=true":    `invalid parameter \"dryrun\"`,
		"delete_series?match[]=up%7B":             `invalid parameter \"match[]\"`,
		"delete_series?match[]=up&start=soon":     `invalid parameter \"start\"`,
		"delete_series?match[]=up&end=late":       `invalid parameter \"end\"`,
		"delete_series?match[]=up&start=5&end=4":  `end timestamp must not be before start time`,
		"delete_series?match[]=up&dry_run=maybe":  `invalid parameter \"dry_run\"`,
		"delete_series?match[]=up&all=everything": `invalid parameter \"all\"`,
		"delete_series?match[]=up&start=%zz":      `error parsing form values`,
		"clean_tombstones?report=long":            `invalid parameter \"report\"`,
	} {
		w := f.post(path+target, "")
		require.Equal(t, http.StatusBadRequest, w.Code, target)
		require.Contains(t, w.Body.String(), `"errorType":"bad_data"`, target)
		require.Contains(t, w.Body.String(), want, target)
	}
	require.Empty(t, deleter.requests)
	for _, c := range []struct {
		err  error
		code int
		text string
	}{
		{fmt.Errorf("%w: x", deletion.ErrDeletesEverything), http.StatusBadRequest, "all=true"},
		{fmt.Errorf("%w: x", deletion.ErrBadRequest), http.StatusBadRequest, "bad_data"},
		{&tombstone.LimitError{Max: 7}, http.StatusUnprocessableEntity, "storage.tombstones-max"},
		{deletion.ErrUnsupported, http.StatusUnprocessableEntity, "execution"},
		{ingest.ErrClosed, http.StatusServiceUnavailable, "unavailable"},
		{errors.New("disk"), http.StatusInternalServerError, "internal"},
		{context.Canceled, statusClientClosed, "canceled"},
	} {
		deleter.err = c.err
		for _, target := range []string{"delete_series?match[]=up", "delete_series?match[]=up&dry_run=true"} {
			w := f.post(path+target, "")
			require.Equal(t, c.code, w.Code, c.err)
			require.Contains(t, w.Body.String(), c.text)
		}
	}
}

func TestCleanTombstones(t *testing.T) {
	deleter := &fakeDeleter{}
	f := newFixture(t, func(o *Options) { o.Deleter, o.AdminAPI = deleter, true })
	w := f.post("/api/v1/admin/tsdb/clean_tombstones", "")
	require.Equal(t, http.StatusNoContent, w.Code)
	require.Empty(t, w.Body.String())
	w = f.post("/api/v1/admin/tsdb/clean_tombstones?report=true", "")
	require.Equal(t, http.StatusOK, w.Code)
	require.JSONEq(t, `{"status":"success","data":{"tombstones":2,"waiting":0,"rowsRewritten":3,"rowsRemoved":4,
		"tables":[{"table":"data","bytesBefore":50,"bytesAfter":6}]}}`, body(t, w))
	require.Equal(t, 2, deleter.clean)
}
