package main_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// readSeries returns the series that remote read finds for a metric, as text, sorted.
func (s *tenantServer) readSeries(who, metric string) (series []string) {
	s.t.Helper()
	for _, found := range s.remoteRead(who, metric) {
		var text strings.Builder
		for _, l := range found.Labels {
			fmt.Fprintf(&text, "%s=%s ", l.Name, l.Value)
		}
		for _, sample := range found.Samples {
			fmt.Fprint(&text, sample.Value, " ")
		}
		series = append(series, text.String())
	}
	slices.Sort(series)
	return series
}

// TestAliasesOfTenant renames a metric and a label of one tenant. All ways to read know both names, other tenants know none of
// them, and a kill directly after the renaming loses nothing.
func TestAliasesOfTenant(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	old := now.Add(-3 * time.Hour)
	s := startTenants(t, t.TempDir(), "--no-web.self-scrape")
	bases := map[string]int{"acme": 10, "beta": 20}
	for who, base := range bases {
		s.writeThree(who, base, old)
	}
	status, text := s.request("operator", "", http.MethodPost, "/api/v1/admin/flush", "")
	require.Less(t, status, 300, text)
	for who, base := range bases {
		s.writeThree(who, base+100, now)
	}
	get := func(who, path string) string {
		t.Helper()
		status, text := s.request(who, "", http.MethodGet, path, "")
		require.Equal(t, http.StatusOK, status, text)
		return text
	}
	for _, names := range []string{"metric=m&name=renamed", "tagk=i&name=index"} {
		require.Contains(t, get("acme", "/api/uid/rename?"+names), `"true"`)
	}
	s.again(syscall.SIGKILL)
	for _, name := range []string{"m", "renamed"} {
		require.Equal(t, "10 11 12", s.values("acme", "", name, old), name)
		require.Equal(t, "110 111 112", s.values("acme", "", name, now), name)
		require.Equal(t, "11", s.values("acme", "", name+`{index="1"}`, old), name)
		require.Equal(t, []string{
			"__name__=renamed acme=x index=0 10 110 ", "__name__=renamed acme=x index=1 11 111 ",
			"__name__=renamed acme=x index=2 12 112 ",
		}, s.readSeries("acme", name), name)
		federated := get("acme", "/federate?match[]="+name)
		require.Equal(t, 3, strings.Count(federated, "renamed{"), federated)
		require.Contains(t, federated, `index="2"`)
		require.NotContains(t, federated, "m{")
		response := get("acme", "/api/query?start=1h-ago&m="+url.QueryEscape("none:"+name+"{index=1}"))
		require.Contains(t, response, fmt.Sprintf(`"tags":{"acme":"x","index":"1"},"aggregateTags":[],"dps":{"%d":111}`, now.Unix()))
	}
	require.Contains(t, get("acme", "/api/v1/admin/aliases"), `"new":"renamed"`)
	require.Contains(t, get("acme", "/api/suggest?type=metrics"), `["renamed"]`)

	require.Equal(t, "20 21 22", s.values("beta", "", "m", old))
	require.Equal(t, "121", s.values("beta", "", `m{i="1"}`, now))
	require.Empty(t, s.values("beta", "", "renamed", now))
	require.Empty(t, s.values("beta", "", `m{index="1"}`, now))
	require.Empty(t, s.readSeries("beta", "renamed"))
	require.Equal(t, "__name__=m beta=x i=0 20 120 ", s.readSeries("beta", "m")[0])
	require.Empty(t, strings.TrimSpace(get("beta", "/federate?match[]=renamed")))
	require.Contains(t, get("beta", "/api/v1/admin/aliases"), `"data":[]`)
	require.Contains(t, get("beta", "/api/suggest?type=metrics"), `["m"]`)
	require.Contains(t, get("beta", "/api/suggest?type=tagk"), `["beta","i"]`)
	status, text = s.request("beta", "", http.MethodGet, "/api/query?start=1h-ago&m=none:renamed", "")
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, text, "No such name for 'metrics': 'renamed'")
	require.Equal(t, "110 111 112", s.values("all", "acme|beta", "renamed", now))
	require.Equal(t, "110 111 112 120 121 122", s.values("all", "acme|beta", "m", now))

	// A deletion by the new names deletes what is stored, of this tenant only.
	status, text = s.request("acme", "", http.MethodDelete,
		fmt.Sprintf("/api/query?start=%d&m=", old.Unix()-60)+url.QueryEscape("none:renamed{index=1}"), "")
	require.Equal(t, http.StatusOK, status, text)
	require.Contains(t, text, `111`)
	for at, left := range map[time.Time]string{old: "10 12", now: "110 112"} {
		require.Equal(t, left, s.values("acme", "", "m", at))
	}
	require.Equal(t, "20 21 22", s.values("beta", "", "m", old))
}

// aliasedStore is a server whose metrics scan_old and scan_new have one series for each host, a to c. The series have samples
// before and after hour, and from hour on scan_new is an alias of scan_old.
type aliasedStore struct {
	*server
	before, hour, after int64 // seconds since 1970
}

func startAliased(t *testing.T) aliasedStore {
	hour := time.Now().Add(-2 * time.Hour).Truncate(time.Hour).Unix()
	s := aliasedStore{startServer(t, t.TempDir(), "--no-web.self-scrape", "--web.enable-admin-api"), hour - 60, hour, hour + 60}
	var put []string
	for n, metric := range []string{"scan_old", "scan_new"} {
		for i, host := range []string{"a", "b", "c"} {
			for k, at := range []int64{s.before, s.after} {
				put = append(put, fmt.Sprintf(`{"metric":%q,"timestamp":%d,"value":%d,"tags":{"host":%q}}`,
					metric, at+int64(n), 100*n+10*i+k, host))
			}
		}
	}
	s.postJSON("/api/put?details", "["+strings.Join(put, ",")+"]")
	s.alias(http.MethodPost)
	return s
}

// alias adds the alias or removes it.
func (s aliasedStore) alias(method string) {
	s.t.Helper()
	form := url.Values{"kind": {"metric"}, "old": {"scan_old"}, "new": {"scan_new"}, "from": {fmt.Sprint(s.hour)}}
	r, err := http.NewRequest(method, s.url+"/api/v1/admin/aliases?"+form.Encode(), nil)
	require.NoError(s.t, err)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	resp.Body.Close()
	require.Equal(s.t, http.StatusNoContent, resp.StatusCode)
}

// left removes the alias, and returns the values that each stored series has left.
func (s aliasedStore) left(host string) (out []string) {
	s.t.Helper()
	s.alias(http.MethodDelete)
	for _, metric := range []string{"scan_old", "scan_new"} {
		for _, sample := range s.remoteSamples(metric)["__name__="+metric+",host="+host] {
			out = append(out, fmt.Sprint(sample.Value))
		}
	}
	s.alias(http.MethodPost)
	return out
}

// TestDeletionsByAlias deletes by an alias with a beginning. It deletes the samples that a query returns, and nothing
// else.
func TestDeletionsByAlias(t *testing.T) {
	t.Parallel()
	s := startAliased(t)
	// Before the hour both names have samples of their own: 0, 10, 20 and 100, 110, 120. After it each name has both series.
	query := fmt.Sprintf("%s/api/query?start=%d&m=none:scan_new{host=a}", s.url, s.before-60)
	r, err := http.NewRequest(http.MethodDelete, query, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", text)
	require.Contains(t, string(text), fmt.Sprintf(`"dps":{"%d":100,"%d":1,"%d":101}`, s.before+1, s.after, s.after+1))
	require.Equal(t, []string{"0"}, s.left("a"))

	dry := s.mustDelete("--match", `scan_old{host="b"}`, "--dry-run")
	require.Contains(t, dry, "3 samples")
	s.mustDelete("--match", `scan_old{host="b"}`)
	require.Equal(t, []string{"110"}, s.left("b"))

	out, progress, err := printed(t, "opentsdb", "scan", "--url", s.url, "--delete", fmt.Sprint(s.before-60), "sum", "scan_new",
		"host=c")
	require.NoError(t, err, progress)
	require.Equal(t, fmt.Sprintf("scan_new %d 120 host=c\nscan_new %d 21 host=c\nscan_new %d 121 host=c\n",
		s.before+1, s.after, s.after+1), out)
	require.Equal(t, []string{"20"}, s.left("c"))
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
}
