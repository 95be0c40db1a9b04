package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema/tsuid"
	"halite/query"
	"halite/storage/tombstone"
)

// TestAliases adds, lists and removes aliases, and reads series by both names.
func TestAliases(t *testing.T) {
	s := newOTSDB(t, query.Options{})
	change := func(method, params string, status int, contains string, header ...string) {
		t.Helper()
		w := s.send(method, "/api/v1/admin/aliases?"+params, "", header...)
		require.Equal(t, status, w.Code, w.Body)
		require.Contains(t, w.Body.String(), contains)
	}
	series := func(match string) string {
		t.Helper()
		w := s.send(http.MethodGet, "/api/v1/series?match[]="+url.QueryEscape(match), "")
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		return w.Body.String()
	}
	change("GET", "", 200, `"data":[]`)
	change("POST", "kind=metric&old=mem&new=memory", 204, "")
	change("POST", "kind=metric&old=mem&new=other", 400, "already has an alias")
	change("POST", "kind=metric&old=memory&new=mem", 400, "loop")
	change("POST", "kind=metric&old=a&new=b&from=1", 400, "start of an hour")
	change("POST", "kind=metric&old=a&new=b&from=x", 400, `invalid parameter \"from\"`)
	change("POST", "kind=tag&old=a&new=b", 400, "is unknown")
	change("POST", "kind=label_value&label=host&old=web01&new=web02", 204, "")
	change("GET", "", 200, `"old":"mem","new":"memory"`)
	change("POST", "kind=metric&old=a&new=b", 403, "", "Authorization", "reader")
	change("GET", "", 403, "", "Authorization", "part")
	for _, name := range []string{"mem", "memory"} {
		require.Contains(t, series(name), `"data":[{"__name__":"memory","dc":"sjc","host":"web02"}]`, name)
	}
	require.Contains(t, s.get(t, "m=sum:mem{host=web01}"), `"metric":"mem","tags":{"dc":"sjc","host":"web02"}`)
	for _, stored := range []labels.Labels{
		labels.FromStrings("__name__", "mem", "dc", "sjc", "host", "web01"),
		labels.FromStrings("__name__", "memory", "dc", "sjc", "host", "web02"),
	} {
		require.Contains(t, s.get(t, "tsuid=none:"+tsuid.Text(stored)), `"tags":{"dc":"sjc","host":"web02"}`, stored)
	}
	// The matchers of a token act on the new names.
	w := s.send(http.MethodGet, "/api/v1/series?match[]=memory", "", "Authorization", "part")
	require.Contains(t, w.Body.String(), `"data":[]`)
	// A deletion by either name deletes what is stored. A token that restricts a renamed label cannot express that.
	for n, name := range []string{"mem", "memory"} {
		w = s.send(http.MethodDelete, fmt.Sprintf("/api/query?start=%d&m=sum:%s{host=web02}", otsdbStart, name), "")
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		want := `{__name__=~"mem|memory",host!="",host=~"web01|web02",_rollup_interval="",_rollup_aggregator="",_aggregate=""}`
		require.Equal(t, want, tombstone.SelectorsText(s.deleted.requests[n].Selectors))
	}
	// The series of a selector with explicit tags, or of a tsuid, are deleted one by one.
	w = s.send(http.MethodPost, "/api/query", fmt.Sprintf(`{"start":%d,"delete":true,"queries":[{"aggregator":"none",
		"metric":"memory","explicitTags":true,"tags":{"host":"*","dc":"*"}}]}`, otsdbStart))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, `{__name__=~"mem|memory",dc="sjc",host=~"web01|web02"}`,
		tombstone.SelectorsText(s.deleted.requests[2].Selectors))
	change("DELETE", "kind=label_value&label=host&old=web01", 204, "")
	s.send(http.MethodPost, "/api/v1/admin/aliases?kind=label_value&label=host&old=web09&new=web01", "")
	w = s.send(http.MethodDelete, fmt.Sprintf("/api/query?start=%d&m=sum:memory", otsdbStart), "", "Authorization", "part")
	require.Equal(t, http.StatusBadRequest, w.Code, w.Body)
	require.Contains(t, w.Body.String(), "the token restricts labels that aliases rename")
	require.Len(t, s.deleted.requests, 3)
	s.send(http.MethodDelete, "/api/v1/admin/aliases?kind=label_value&label=host&old=web09", "")
	change("DELETE", "kind=metric&old=mem", 204, "")
	change("DELETE", "kind=metric&old=mem", 404, "has no alias")
	require.Contains(t, series("mem"), `"__name__":"mem"`)
	require.Contains(t, series("memory"), `"data":[]`)
}

// TestAnnotationsBeforeAlias: an annotation from the time before an alias answers with the series under both names.
func TestAnnotationsBeforeAlias(t *testing.T) {
	t.Parallel()
	s := newOTSDB(t, query.Options{})
	for _, params := range []string{"kind=metric&old=mem&new=memory", "kind=label_value&label=host&old=web01&new=web02"} {
		require.Equal(t, 204, s.send(http.MethodPost, "/api/v1/admin/aliases?"+params, "").Code)
	}
	former := tsuid.Text(labels.FromStrings("__name__", "mem", "dc", "sjc", "host", "web01"))
	note := fmt.Sprintf(`{"tsuid":%q,"startTime":%d,"endTime":0,"description":"d","notes":""}`, former, otsdbStart+1)
	require.Equal(t, 200, s.send(http.MethodPost, "/api/annotation", note).Code)
	for _, m := range []string{"m=none:mem", "m=none:memory", "m=sum:memory{host=web02}", "tsuid=none:" + former} {
		require.Contains(t, s.get(t, m), `"annotations":[`+note+`]`, m)
		require.NotContains(t, s.get(t, m+"&show_tsuids"), `"tsuids":["`+former, m)
	}
	require.NotContains(t, s.get(t, "m=sum:sys.cpu"), "annotations")
	// A deletion of the series by its new name deletes the annotation, but not one of another time.
	for _, c := range []struct {
		end  int64
		code int
	}{{otsdbStart, 200}, {otsdbStart + 1, 404}} {
		w := s.send(http.MethodPost, fmt.Sprintf("/api/v1/admin/tsdb/delete_series?match[]=memory&end=%d", c.end), "")
		require.Equal(t, 204, w.Code, w.Body)
		at := fmt.Sprintf("/api/annotation?start_time=%d&tsuid=%s", otsdbStart+1, former)
		require.Equal(t, c.code, s.send(http.MethodGet, at, "").Code)
	}
}

func codeOf(s *stack, path string) int {
	code, _ := s.request(http.MethodGet, path, "")
	return code
}

// TestRenameByForeignPage sends a rename by GET from a page of another origin, as a link or an image does.
func TestRenameByForeignPage(t *testing.T) {
	t.Parallel()
	s := tsdStack(t)
	get := func(header, value string) int {
		r := httptest.NewRequest(http.MethodGet, "/api/uid/rename?metric=sys.cpu.user&name=cpu.user", nil)
		r.Header.Set(header, value)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		return w.Code
	}
	require.Equal(t, http.StatusForbidden, get("Sec-Fetch-Site", "cross-site"))
	require.Equal(t, http.StatusForbidden, get("Origin", "https://evil.example"))
	s.require(t, "GET /api/suggest?type=metrics&q=cpu", "", 200, `[]`)
	require.Equal(t, http.StatusOK, get("Sec-Fetch-Site", "same-origin"))
}

// TestOpenTSDBRename renames as OpenTSDB's clients do.
func TestOpenTSDBRename(t *testing.T) {
	t.Parallel()
	s := tsdStack(t)
	done := `{"result":"true"}`
	s.require(t, "POST /api/uid/rename", `{"metric":"sys.cpu.user","name":"cpu.user"}`, 200, done)
	s.require(t, "GET /api/uid/rename?tagk=iface&name=device", "", 200, done)
	s.require(t, "POST /api/uid/rename", `{"tagv":"web02","name":"web01"}`, 200, done)
	s.require(t, "GET /api/suggest?type=metrics", "", 200, `["cpu.user","net.bytes","sys.cpu.nice"]`)
	s.require(t, "GET /api/suggest?type=tagk", "", 200, `["dc","device","host"]`)
	s.require(t, "GET /api/suggest?type=tagv&q=w", "", 200, `["web01"]`)
	// Old tsuids and UIDs still answer.
	old := labels.FromStrings("__name__", "net.bytes", "iface", "web02")
	for _, series := range []labels.Labels{old, labels.FromStrings("__name__", "net.bytes", "device", "web01")} {
		id := tsuid.Text(series)
		require.Equal(t, 200, codeOf(s, "/api/uid/tsmeta?tsuid="+id), series)
	}
	for kind, names := range map[tsuid.Kind][2]string{
		tsuid.Metric: {"sys.cpu.user", "cpu.user"}, tsuid.Key: {"iface", "device"}, tsuid.Value: {"web02", "web01"},
	} {
		code, text := s.request("GET", "/api/uid/uidmeta?type="+kind.String()+"&uid="+tsuid.Derive(kind, names[0]).String(), "")
		require.Equal(t, 200, code, text)
		require.Contains(t, text, fmt.Sprintf(`"uid":"%s"`, tsuid.Derive(kind, names[1])))
		require.Contains(t, text, fmt.Sprintf(`"name":"%s"`, names[1]))
	}
	require.Equal(t, 404, codeOf(s, "/api/uid/uidmeta?type=metric&uid="+tsuid.Derive(tsuid.Metric, "none").String()))
	s.require(t, "POST /api/uid/rename", `{"metric":"cpu.user","name":"sys.cpu.user"}`, 400,
		`{"result":"false","error":"the aliases form a loop: metric \"cpu.user\" answers as \"sys.cpu.user\""}`)
	s.require(t, "POST /api/uid/rename", `{"metric":"none","name":"more"}`, 400,
		`{"result":"false","error":"bad alias: No such name for 'metric': 'none'"}`)
	s.require(t, "POST /api/uid/rename", `{"metric":"net.bytes","name":"a b"}`, 400,
		`{"result":"false","error":"bad alias: Invalid metric (\"a b\"): illegal character:  "}`)
	s.require(t, "POST /api/uid/rename", `{"metric":"net.bytes"}`, 400, tsdError(400, "Missing necessary values to rename UID", ""))
	s.require(t, "POST /api/uid/rename", `{"metric":"a","tagk":"b","name":"c"}`, 400,
		tsdError(400, "Exactly one of metric, tagk and tagv must be given", ""))
}
