package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/query"
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
	change("POST", "kind=metric&old=mem&new=other", 400, "has an alias already")
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
	// The matchers of a token act on the new names.
	w := s.send(http.MethodGet, "/api/v1/series?match[]=memory", "", "Authorization", "part")
	require.Contains(t, w.Body.String(), `"data":[]`)
	w = s.send(http.MethodDelete, fmt.Sprintf("/api/query?start=%d&m=sum:mem", otsdbStart), "")
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "stored names")
	change("DELETE", "kind=label_value&label=host&old=web01", 204, "")
	change("DELETE", "kind=metric&old=mem", 204, "")
	change("DELETE", "kind=metric&old=mem", 404, "has no alias")
	require.Contains(t, series("mem"), `"__name__":"mem"`)
	require.Contains(t, series("memory"), `"data":[]`)
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
	s.require(t, "POST /api/uid/rename", `{"metric":"cpu.user","name":"sys.cpu.user"}`, 400,
		`{"result":"false","error":"the aliases form a loop: metric \"cpu.user\" answers as \"sys.cpu.user\""}`)
	s.require(t, "POST /api/uid/rename", `{"metric":"none","name":"more"}`, 400,
		`{"result":"false","error":"bad alias: No such name for 'metric': 'none'"}`)
	s.require(t, "POST /api/uid/rename", `{"metric":"net.bytes","name":"a b"}`, 400,
		`{"result":"false","error":"bad alias: Invalid metric (\"a b\"): illegal character:  "}`)
	s.require(t, "POST /api/uid/rename", `{"metric":"net.bytes"}`, 400, tsdError(400, "Missing name parameter", ""))
	s.require(t, "POST /api/uid/rename", `{"metric":"a","tagk":"b","name":"c"}`, 400,
		tsdError(400, "Exactly one of metric, tagk and tagv must be given", ""))
}
