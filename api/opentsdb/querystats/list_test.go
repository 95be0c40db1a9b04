package querystats

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestList(t *testing.T) {
	now := time.Unix(1_600_000_000, 0)
	l := New(func() time.Time { return now })
	document := func() string {
		text, err := json.Marshal(l.Document())
		require.NoError(t, err)
		return string(text)
	}
	require.JSONEq(t, `{"completed":[],"running":[]}`, document())
	c := Client{Address: "10.0.0.1:7", User: "ann", Headers: map[string]string{"User-Agent": "curl"}}
	slow, quick := l.Begin(c, json.RawMessage(`{"start":"1h-ago"}`)), l.Begin(Client{Address: "10.0.0.2:7"}, json.RawMessage(`{}`))
	now = now.Add(1500 * time.Millisecond)
	quick.End(Result{Status: 400, Fault: "no such name"})
	require.JSONEq(t, `{"completed":[{"query":{},"exception":"no such name","executed":1,"user":null,"requestHeaders":null,
		"numRunningQueries":1,"httpResponse":{"code":400,"reasonPhrase":"Bad Request"},"queryStartTimestamp":1600000000000,
		"queryCompletedTimestamp":1600000001500,"sentToClient":false,"stats":null}],
		"running":[{"query":{"start":"1h-ago"},"remote":"10.0.0.1:7","user":"ann","headers":{"User-Agent":"curl"},
		"queryStart":1600000000000,"elapsed":1500}]}`, document())
	slow.End(Result{Status: 200, Sent: true, Figures: map[string]float64{"totalTime": 1500}})
	l.Begin(c, json.RawMessage(`{"start":"1h-ago"}`)).End(Result{Status: 200, Sent: true})
	d := l.Document()
	require.Empty(t, d.Running)
	require.Len(t, d.Completed, 2)
	require.Equal(t, 2, d.Completed[0].Executed)
	require.Equal(t, "null", d.Completed[0].Exception)
}

// TestBounds: neither many queries nor long ones fill the memory.
func TestBounds(t *testing.T) {
	l := New(time.Now)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for k := range CompletedMax {
				text := fmt.Sprintf(`{"n":"%d,%d"}`, i, k)
				if k%100 == 0 {
					text = `{"n":"` + strings.Repeat("x", queryBytesMax) + `"}`
				}
				l.Begin(Client{}, json.RawMessage(text)).End(Result{Status: 200})
			}
		})
	}
	all.Wait()
	d := l.Document()
	require.Empty(t, d.Running)
	require.Len(t, d.Completed, CompletedMax)
	for _, q := range d.Completed {
		require.LessOrEqual(t, len(q.Query), queryBytesMax)
	}
}
