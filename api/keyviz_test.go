package api

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/api/tenancy"
	"halite/keyschema"
	"halite/storage"
	"halite/storage/keyviz"
	"halite/storage/keyviz/ranges"
	"halite/storage/principal"
	"halite/storage/storagetest"
	"halite/storage/tenants"
)

// newCollector has counted 10 samples of each of 100 series of the default tenant and of tenant acme.
func newCollector(t *testing.T) (*keyviz.Collector, storage.Store) {
	now := time.Now().Truncate(time.Hour).Add(30 * time.Minute)
	clock := func() time.Time { return now }
	store := storagetest.NewModel(clock)
	meta, err := store.EnsureTable(t.Context(), storage.MetaSchema())
	require.NoError(t, err)
	_, err = store.EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	c, err := keyviz.Open(t.Context(), keyviz.Options{Meta: meta, Now: clock})
	require.NoError(t, err)
	c.Start(func(dst []byte, ref uint32, hour int64) []byte {
		return keyschema.AppendHour(fmt.Appendf(dst, "%sup#%02d#instance=host-%03d#",
			[]string{"", "&acme&"}[ref%2], ref%4, ref), hour)
	}, 0)
	for range 10 {
		b := c.Begin(1)
		for ref := range uint32(200) {
			ranges.Add(b, []struct {
				Ref   uint32
				TsMs  int64
				Value float64
			}{{Ref: ref, TsMs: now.UnixMilli()}})
		}
		c.End(b)
		c.Tick(t.Context())
	}
	return c, store
}

type heatmapResponse struct {
	Metric, Unit string
	Columns      []float64
	Rows         []struct {
		Key, Start, Border string
		Labels             []string
	}
	Values struct {
		Encoding string
		Shape    [2]int
		Data     json.RawMessage
	}
	Tablets              []struct{ Start, End, Node string }
	RowTotals, ColTotals []float64
	Max, P99             float64
	Scaled               bool
}

func heatmapOf(t *testing.T, f *fixture, query string) (a heatmapResponse) {
	t.Helper()
	var envelope struct{ Data json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(body(t, f.get("/api/v1/keyviz/heatmap"+query))), &envelope))
	require.NoError(t, json.Unmarshal(envelope.Data, &a))
	return a
}

func sum(list []float64) (n float64) {
	for _, v := range list {
		n += v
	}
	return n
}

func TestKeyvizHeatmap(t *testing.T) {
	c, store := newCollector(t)
	f := newFixture(t, func(o *Options) { o.Keyviz, o.Tablets = c, store })
	a := heatmapOf(t, f, "")
	require.Equal(t, "write_cells", a.Metric)
	require.Equal(t, "cells/s", a.Unit)
	require.Len(t, a.Columns, a.Values.Shape[0]+1)
	require.Len(t, a.Rows, a.Values.Shape[1])
	require.InEpsilon(t, 2000, sum(a.RowTotals), 1e-6)
	require.InEpsilon(t, 2000, sum(a.ColTotals), 1e-6)
	require.True(t, a.Scaled)
	require.NotEmpty(t, a.Tablets)
	var rates []float64
	require.NoError(t, json.Unmarshal(a.Values.Data, &rates))
	require.InEpsilon(t, 2000, sum(rates)*(a.Columns[1]-a.Columns[0]), 1e-6)
	last := a.Rows[len(a.Rows)-1]
	require.Contains(t, last.Labels, "tenant:default")
	require.Contains(t, last.Labels, "metric:up")
	start, err := base64.RawURLEncoding.DecodeString(last.Start)
	require.NoError(t, err)
	require.Equal(t, last.Key, string(start))
	borders := map[string]bool{}
	for _, row := range a.Rows {
		borders[row.Border] = true
	}
	require.True(t, borders["tenant"] && borders["salt"], "%v", borders)

	binaryResponse := heatmapOf(t, f, "?format=f32")
	require.Equal(t, "f32le", binaryResponse.Values.Encoding)
	var text string
	require.NoError(t, json.Unmarshal(binaryResponse.Values.Data, &text))
	raw, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	require.Len(t, raw, 4*len(rates))
	for i, rate := range rates {
		require.InEpsilon(t, rate+1, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))+1, 1e-6)
	}
	small := heatmapOf(t, f, "?rows=3&cols=4&metric=read_rows")
	require.LessOrEqual(t, small.Values.Shape[0], 4)
	require.LessOrEqual(t, small.Values.Shape[1], 3)
}

func TestKeyvizRangesAndCell(t *testing.T) {
	c, _ := newCollector(t)
	f := newFixture(t, func(o *Options) { o.Keyviz = c })
	var ranges struct {
		Data struct {
			Ranges []struct {
				Start, End              string
				Total, Share, PerSecond float64
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body(t, f.get("/api/v1/keyviz/ranges?top=5"))), &ranges))
	list := ranges.Data.Ranges
	require.Len(t, list, 5)
	for i := 1; i < len(list); i++ {
		require.GreaterOrEqual(t, list[i-1].Total, list[i].Total)
	}
	require.InEpsilon(t, list[0].Total/2000, list[0].Share, 1e-6)

	at := strconv.FormatInt(time.Now().Truncate(time.Hour).Add(30*time.Minute).Unix(), 10)
	text := body(t, f.get("/api/v1/keyviz/cell?t="+at+"&key="+list[0].Start))
	require.Contains(t, text, `"found":true`)
	require.Contains(t, text, `"tags":{"instance":"host-`)
	require.Contains(t, body(t, f.get("/api/v1/keyviz/cell?t=1000")), `"found":false`)
}

func TestKeyvizCompare(t *testing.T) {
	c, _ := newCollector(t)
	f := newFixture(t, func(o *Options) { o.Keyviz = c })
	get := func(query string) (before, after float64, text string) {
		text = body(t, f.get("/api/v1/keyviz/compare?"+query))
		var a struct {
			Data struct {
				Keys          int
				Before, After struct {
					MaxOverMean float64
					Heatmap     heatmapResponse
				}
			}
		}
		require.NoError(t, json.Unmarshal([]byte(text), &a))
		require.Positive(t, a.Data.Keys)
		require.InEpsilon(t, 2000, sum(a.Data.Before.Heatmap.RowTotals), 1e-6)
		require.InEpsilon(t, 2000, sum(a.Data.After.Heatmap.RowTotals), 1e-6)
		return a.Data.Before.MaxOverMean, a.Data.After.MaxOverMean, text
	}
	before, after, _ := get("layout=static-key")
	require.Less(t, before, 3.0)
	require.Greater(t, after, 6.0)
	rules := `[{"pattern":"up","salts":1,"from_hour":5},{"pattern":"*","retention":{"raw":"2d"}}]`
	_, _, text := get("rules=" + url.QueryEscape(rules))
	require.Contains(t, text, `"key":"up#00#`)
}

func TestKeyvizBadInput(t *testing.T) {
	c, _ := newCollector(t)
	f := newFixture(t, func(o *Options) { o.Keyviz = c })
	for query, text := range map[string]string{
		"heatmap?rows=1025": "1024", "heatmap?rows=x": "rows", "heatmap?cols=0": "cols", "heatmap?start_key=*": "base64url",
		"heatmap?start=2&end=1": "start must be before end", "heatmap?start=never": "start", "heatmap?metric=cpu": "write_cells",
		"heatmap?format=xml": "format", "heatmap?start_key=Yg&end_key=YQ": "start_key", "ranges?top=5000": "top", "cell": "t, the time",
		"compare": "rules or layout", "compare?layout=x": "time-first", "compare?layout=static-key&rules=[]": "cannot be combined",
		"compare?rules={": "rules", "compare?rules=[{\"salts\":5}]": "pattern", "compare?rules=[]x": "text follows",
		"compare?rules=[{\"salt\":5}]": "unknown field", "cell?t=99999999999999": "1970", "cell?t=5&key=%2B": "base64url",
		"heatmap?start=%zz": "",
	} {
		w := f.get("/api/v1/keyviz/" + query)
		require.Equal(t, http.StatusBadRequest, w.Code, query)
		require.Contains(t, w.Body.String(), text, query)
	}
	off := newFixture(t, func(*Options) {})
	for _, path := range []string{"compare?layout=time-first", "heatmap", "ranges", "cell?t=1"} {
		w := off.get("/api/v1/keyviz/" + path)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Contains(t, w.Body.String(), "--keyviz.max-memory")
	}
}

// tenantHeader accepts every request, for the tenant in the header Authorization.
type tenantHeader struct{}

func (tenantHeader) Identify(r *http.Request) (*principal.Principal, error) {
	p := &principal.Principal{Name: "token", Scopes: principal.Read}
	if name := r.Header.Get("Authorization"); name != "" {
		p.Tenants = strings.Split(name, ",")
	}
	return p, nil
}

// TestKeyvizTenants: a tenant sees only its own keys, and a principal without a tenant sees all.
func TestKeyvizTenants(t *testing.T) {
	c, store := newCollector(t)
	list, err := tenants.Open(t.Context(), tenants.Options{Store: store})
	require.NoError(t, err)
	require.NoError(t, list.Ensure(t.Context(), "acme"))
	resolve, err := tenancy.New(tenancy.Options{List: list})
	require.NoError(t, err)
	f := newFixture(t, func(o *Options) {
		o.Keyviz, o.Tablets, o.Auth, o.Tenancy = c, store, tenantHeader{}, resolve
	})
	get := func(tenant, path string) (int, string) {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/keyviz/"+path, nil)
		r.Header.Set("Authorization", tenant)
		w := httptest.NewRecorder()
		f.Handler().ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for tenant, want := range map[string]float64{"acme": 1000, "default": 1000, "": 2000} {
		code, text := get(tenant, "heatmap")
		require.Equal(t, http.StatusOK, code, text)
		var envelope struct{ Data heatmapResponse }
		require.NoError(t, json.Unmarshal([]byte(text), &envelope))
		require.InEpsilon(t, want, sum(envelope.Data.RowTotals), 0.01, tenant)
		for _, row := range envelope.Data.Rows {
			if tenant != "" {
				require.Equal(t, "tenant:"+tenant, append(row.Labels, "tenant:"+tenant)[0], row.Key)
			}
		}
		require.Equal(t, tenant == "", len(envelope.Data.Tablets) > 0, "the only tablet spans all tenants")
	}
	foreign := base64.RawURLEncoding.EncodeToString([]byte("up#"))
	at := strconv.FormatInt(time.Now().Truncate(time.Hour).Add(30*time.Minute).Unix(), 10)
	for _, path := range []string{"heatmap?start_key=" + foreign, "cell?t=" + at + "&key=" + foreign} {
		code, text := get("acme", path)
		require.Equal(t, http.StatusBadRequest, code, text)
	}
	code, text := get("acme,default", "heatmap")
	require.Equal(t, http.StatusUnauthorized, code, text)
}
