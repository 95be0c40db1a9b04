package ui

import (
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// graphsMax is the number of expressions that a link of Prometheus may have. Its parameters are a few bytes each.
const graphsMax = 100

// Graph redirects a link to Prometheus's graph page to the page of queries. Alerts and dashboards have such links:
// /graph?g0.expr=up&g0.tab=1. Range, end and step of the first expression hold for all, as the page has one time range.
func Graph(w http.ResponseWriter, r *http.Request) {
	form := r.URL.Query() // without parameters that it cannot parse
	page := url.Values{}
	for n := range graphsMax {
		expr := form.Get("g" + strconv.Itoa(n) + ".expr")
		if expr == "" {
			break
		}
		page.Add("expr", expr)
	}
	// Prometheus 2 numbers the tabs, later versions name them.
	if tab := form.Get("g0.tab"); tab == "1" || tab == "table" {
		page.Set("tab", "table")
	}
	if span := form.Get("g0.range_input"); span != "" {
		page.Set("range", span)
	}
	if step := form.Get("g0.step_input"); step != "" {
		if _, err := strconv.ParseFloat(step, 64); err == nil {
			step += "s"
		}
		page.Set("step", step)
	}
	if end, err := time.Parse(time.DateTime, form.Get("g0.end_input")); err == nil {
		page.Set("end", strconv.FormatInt(end.UnixMilli(), 10))
	}
	// The location is relative, because a proxy may serve the pages below a prefix that this server does not know.
	w.Header().Set("Location", "./#/query?"+page.Encode())
	w.WriteHeader(http.StatusFound)
}
