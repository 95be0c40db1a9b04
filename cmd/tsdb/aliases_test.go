package main_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"
)

// readSeries returns the series that remote read finds for a metric, as text, sorted.
func (s *tenantServer) readSeries(who, metric string) (series []string) {
	s.t.Helper()
	req := prompb.ReadRequest{Queries: []*prompb.Query{{
		EndTimestampMs: time.Now().Add(time.Hour).UnixMilli(), Matchers: []*prompb.LabelMatcher{{Name: "__name__", Value: metric}},
	}}}
	body, err := req.Marshal()
	require.NoError(s.t, err)
	r, err := http.NewRequest(http.MethodPost, s.url+"/api/v1/read", bytes.NewReader(snappy.Encode(nil, body)))
	require.NoError(s.t, err)
	r.Header.Set("Authorization", "Bearer "+who)
	r.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	packed, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, resp.StatusCode, "%s", packed)
	raw, err := snappy.Decode(nil, packed)
	require.NoError(s.t, err)
	var answer prompb.ReadResponse
	require.NoError(s.t, answer.Unmarshal(raw))
	for _, found := range answer.Results[0].Timeseries {
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
	status, text := s.ask("operator", "", http.MethodPost, "/api/v1/admin/flush", "")
	require.Less(t, status, 300, text)
	for who, base := range bases {
		s.writeThree(who, base+100, now)
	}
	get := func(who, path string) string {
		t.Helper()
		status, text := s.ask(who, "", http.MethodGet, path, "")
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
		answer := get("acme", "/api/query?start=1h-ago&m="+url.QueryEscape("none:"+name+"{index=1}"))
		require.Contains(t, answer, fmt.Sprintf(`"tags":{"acme":"x","index":"1"},"aggregateTags":[],"dps":{"%d":111}`, now.Unix()))
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
	status, text = s.ask("beta", "", http.MethodGet, "/api/query?start=1h-ago&m=none:renamed", "")
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, text, "No such name for 'metrics': 'renamed'")
	require.Equal(t, "110 111 112", s.values("all", "acme|beta", "renamed", now))
	require.Equal(t, "110 111 112 120 121 122", s.values("all", "acme|beta", "m", now))

	// A deletion by the new names deletes what is stored, of this tenant only.
	status, text = s.ask("acme", "", http.MethodDelete,
		fmt.Sprintf("/api/query?start=%d&m=", old.Unix()-60)+url.QueryEscape("none:renamed{index=1}"), "")
	require.Equal(t, http.StatusOK, status, text)
	require.Contains(t, text, `111`)
	for at, left := range map[time.Time]string{old: "10 12", now: "110 112"} {
		require.Equal(t, left, s.values("acme", "", "m", at))
	}
	require.Equal(t, "20 21 22", s.values("beta", "", "m", old))
}
