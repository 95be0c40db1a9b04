package main_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

// sentAlert is an alert as an Alertmanager receives it.
type sentAlert struct {
	Labels           map[string]string
	StartsAt, EndsAt time.Time
}

// alertmanager is a stand-in that keeps the newest state of each alert.
type alertmanager struct {
	mu     sync.Mutex
	alerts map[string]sentAlert // by name
}

func newAlertmanager(t *testing.T) (*alertmanager, string) {
	a := &alertmanager{alerts: make(map[string]sentAlert)}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	return a, strings.TrimPrefix(server.URL, "http://")
}

func (a *alertmanager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var list []sentAlert
	if r.URL.Path != "/api/v2/alerts" || json.NewDecoder(r.Body).Decode(&list) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, alert := range list {
		a.alerts[alert.Labels["alertname"]] = alert
	}
}

// firing reports whether an alert has come and has not ended.
func (a *alertmanager) firing(name string) (firing, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	alert, known := a.alerts[name]
	return known && alert.EndsAt.After(time.Now()), known
}

const ruleFile = `
groups:
- name: rooms
  interval: 1s
  rules:
  - {record: room:temp:max, expr: max(temp)}
  - alert: Hot
    expr: room:temp:max > 30
    labels: {severity: page}
    annotations: {summary: "{{ $value }} degrees"}
  - {alert: HotForLong, expr: room:temp:max > 30, for: 30m}
  - {alert: HotForSome, expr: room:temp:max > 30, for: 2s}
  - {record: broken, expr: temp + on () temp}
`

// ruleServer is a server with rules and its Alertmanager.
type ruleServer struct {
	*server
	config string
}

func startRules(t *testing.T, dir, alertmanager string, flags ...string) *ruleServer {
	folder := t.TempDir()
	s := &ruleServer{config: filepath.Join(folder, "halite.yml")}
	s.putRules(t, ruleFile)
	require.NoError(t, os.WriteFile(s.config, fmt.Appendf(nil, `
global: {evaluation_interval: 1h, external_labels: {cluster: eu-1}}
rule_files: [rules.yml]
alerting: {alertmanagers: [{static_configs: [{targets: ["%s"]}]}]}
`, alertmanager), 0o600))
	s.start(t, dir, flags...)
	return s
}

func (s *ruleServer) start(t *testing.T, dir string, flags ...string) {
	s.server = startServer(t, dir, append([]string{
		"--config.file", s.config, "--web.enable-lifecycle", "--rules.alert.for-grace-period=1s",
		"--rules.alert.resend-delay=1s",
	}, flags...)...)
}

func (s *ruleServer) putRules(t *testing.T, text string) {
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(s.config), "rules.yml"), []byte(text), 0o600))
}

// heat writes a temperature of now for two rooms.
func (s *ruleServer) heat(degrees float64) {
	now := time.Now().UnixMilli()
	s.writeRetrying([]point{
		{metric: "temp", instance: "a", tsMs: now, value: degrees}, {metric: "temp", instance: "b", tsMs: now, value: 1},
	})
}

// ruleState is the state of a rule in /api/v1/rules.
type ruleState struct {
	Name, State, Health, LastError, Type string
	Alerts                               []struct {
		Labels   map[string]string
		ActiveAt time.Time
	}
}

func (s *ruleServer) rules() map[string]ruleState {
	_, a := s.get("/api/v1/rules", nil)
	var list struct{ Groups []struct{ Rules []ruleState } }
	require.NoError(s.t, json.Unmarshal(a.Data, &list), string(a.Data))
	out := make(map[string]ruleState)
	for _, g := range list.Groups {
		for _, r := range g.Rules {
			out[r.Name] = r
		}
	}
	return out
}

// has reports whether a query has a result now.
func (s *ruleServer) has(query string) bool {
	_, a := s.get("/api/v1/query", url.Values{"query": {query}})
	return strings.Contains(string(a.Data), `"metric"`)
}

// TestRules: an alert goes to Alertmanager, is a series, and resolves. A rule that fails is counted and shown. A bad file is
// refused and changes nothing.
func TestRules(t *testing.T) {
	t.Parallel()
	am, address := newAlertmanager(t)
	s := startRules(t, t.TempDir(), address, "--no-web.self-scrape")
	s.heat(40)
	soon := func(what string, ok func() bool) {
		t.Helper()
		require.Eventually(t, ok, time.Minute, 20*time.Millisecond, what)
	}
	soon("the alert arrives", func() bool { firing, _ := am.firing("Hot"); return firing })
	am.mu.Lock()
	require.Equal(t, map[string]string{"alertname": "Hot", "severity": "page", "cluster": "eu-1"}, am.alerts["Hot"].Labels)
	am.mu.Unlock()
	soon("alerts are series", func() bool {
		return s.has(`ALERTS{alertname="Hot",alertstate="firing"}`) && s.has(`ALERTS{alertname="HotForLong",alertstate="pending"}`) &&
			s.has(`ALERTS_FOR_STATE{alertname="Hot"}`) && s.has(`room:temp:max == 40`)
	})
	rules := s.rules()
	require.Equal(t, "firing", rules["Hot"].State)
	require.Equal(t, "pending", rules["HotForLong"].State)
	require.Equal(t, "err", rules["broken"].Health)
	require.Contains(t, rules["broken"].LastError, "many-to-many matching not allowed")
	group := fmt.Sprintf(`{rule_group="%s;rooms"}`, filepath.Join(filepath.Dir(s.config), "rules.yml"))
	require.GreaterOrEqual(t, s.metric("prometheus_rule_evaluation_failures_total"+group), 1.0)
	require.GreaterOrEqual(t, s.metric("prometheus_rule_group_iterations_missed_total"+group), 0.0)
	_, a := s.get("/api/v1/alertmanagers", nil)
	require.Contains(t, string(a.Data), address)
	_, a = s.get("/api/v1/features", nil)
	require.Contains(t, string(a.Data), `"keep_firing_for":true`)
	require.Contains(t, string(a.Data), `"humanizeDuration":true`)

	s.putRules(t, strings.Replace(ruleFile, "> 30", ">> 30", 1))
	status, text, _ := s.post("/-/reload", nil)
	require.Equal(t, http.StatusInternalServerError, status)
	require.Contains(t, text, `rules.yml: 8:11: group "rooms", rule 2, "Hot": could not parse expression`)
	require.Contains(t, s.rules(), "HotForLong")
	s.putRules(t, strings.Replace(ruleFile, "HotForLong", "HotForAges", 1))
	status, text, _ = s.post("/-/reload", nil)
	require.Equal(t, http.StatusOK, status, text)
	require.NotContains(t, s.rules(), "HotForLong")
	soon("a reload keeps alerts", func() bool { return s.rules()["Hot"].State == "firing" })

	s.heat(20)
	soon("the alert resolves", func() bool { firing, known := am.firing("Hot"); return known && !firing })
	soon("its series ends", func() bool { return !s.has(`ALERTS{alertname="Hot"}`) })
	require.NoError(t, s.end(syscall.SIGTERM))
	require.NotContains(t, s.log.String(), "panic")
}

// TestRulesAfterKill: the state of an alert is as durable as samples, so it survives kill -9.
func TestRulesAfterKill(t *testing.T) {
	t.Parallel()
	am, address := newAlertmanager(t)
	dir := t.TempDir()
	s := startRules(t, dir, address, "--no-web.self-scrape")
	s.heat(40)
	require.Eventually(t, func() bool { return s.has(`ALERTS{alertname="HotForSome",alertstate="firing"}`) },
		time.Minute, 20*time.Millisecond)
	activeAt := s.rules()["HotForSome"].Alerts[0].ActiveAt
	_ = s.end(syscall.SIGKILL)
	am.mu.Lock()
	clear(am.alerts)
	am.mu.Unlock()
	s.start(t, dir, "--no-web.self-scrape")
	s.heat(40)
	require.Eventually(t, func() bool {
		alerts := s.rules()["HotForSome"].Alerts
		return len(alerts) == 1 && alerts[0].ActiveAt.Unix() == activeAt.Unix()
	}, time.Minute, 20*time.Millisecond, "the state is restored")
	require.Eventually(t, func() bool { firing, _ := am.firing("HotForSome"); return firing }, time.Minute, 20*time.Millisecond)
}

// TestRulesInDirectMode: a server without a log evaluates rules as well.
func TestRulesInDirectMode(t *testing.T) {
	t.Parallel()
	startEmulator(t)
	am, address := newAlertmanager(t)
	s := startRules(t, nowhere(t), address, direct()...)
	s.heat(40)
	require.Eventually(t, func() bool { firing, _ := am.firing("Hot"); return firing && s.has(`ALERTS{alertname="Hot"}`) },
		time.Minute, 20*time.Millisecond)
}

// TestBadRulesAtStart: a server with bad rules does not start, and creates no directory.
func TestBadRulesAtStart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	config, dir := filepath.Join(folder, "halite.yml"), filepath.Join(folder, "data")
	require.NoError(t, os.WriteFile(config, []byte("rule_files: [none.yml]"), 0o600))
	text, err := tsdb(t, "serve", "--storage.path", dir, "--web.listen-address", freeAddress(t), "--config.file", config)
	require.Error(t, err)
	require.Contains(t, text, filepath.Join(folder, "none.yml")+": file does not exist")
	require.NoDirExists(t, dir)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "none.yml"), []byte(
		"groups: [{name: g, tenant: acme, rules: []}]"), 0o600))
	text, err = tsdb(t, "serve", "--storage.path", dir, "--web.listen-address", freeAddress(t), "--config.file", config)
	require.Error(t, err)
	require.Contains(t, text, `group "g" has the tenant "acme": the server has no --tenants`)
	require.NoDirExists(t, dir)
	require.NoError(t, os.WriteFile(config, []byte("tenants: [{name: acme, series: {max: 5}}]"), 0o600))
	text, err = tsdb(t, "serve", "--storage.path", dir, "--web.listen-address", freeAddress(t), "--config.file", config)
	require.Error(t, err)
	require.Contains(t, text, config+`: tenants: the server has no --tenants`)
	require.NoDirExists(t, dir)
}

// TestRulesOfTenants: the rules of a group read and write its tenant, and other tenants do not see them. They keep the state of
// their alerts, too.
func TestRulesOfTenants(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	config := filepath.Join(folder, "halite.yml")
	require.NoError(t, os.WriteFile(config, []byte("rule_files: [rules.yml]"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "rules.yml"), []byte(
		"groups: [{name: g, interval: 1s, rules: [{record: temps, expr: count(temp)}, {alert: Secret, expr: temp > 1}]}, "+
			"{name: h, tenant: acme, interval: 1s, rules: [{record: temps:acme, expr: count(temp)}, {alert: Hot, expr: temp > 1}]}, "+
			"{name: i, tenant: beta, interval: 1s, rules: [{record: temps:beta, expr: count(temp) or vector(0)}]}]"), 0o600))
	s := startTenants(t, t.TempDir(), "--no-web.self-scrape", "--config.file", config)
	for _, who := range []string{"acme", "default"} {
		status, text := s.request(who, "", http.MethodPost, "/api/v1/import/prometheus", "temp{of=\""+who+"\"} 40\n")
		require.Less(t, status, 300, text)
	}
	for tenant, metric := range map[string]string{"default": "temps", "acme": "temps:acme"} {
		require.Eventually(t, func() bool {
			_, text := s.request(tenant, "", http.MethodGet, "/api/v1/query?query="+metric, "")
			return strings.Contains(text, `"1"`)
		}, time.Minute, 20*time.Millisecond, "the rule counts the series of its tenant alone")
	}
	require.Eventually(t, func() bool {
		_, text := s.request("beta", "", http.MethodGet, "/api/v1/query?query=temps:beta", "")
		return strings.Contains(text, `"0"`)
	}, time.Minute, 20*time.Millisecond, "a rule creates its tenant")
	visible := map[string][]string{"default": {"Secret", "temps"}, "acme": {"Hot", "temps:acme"}, "beta": {"temps:beta"}}
	for tenant := range visible {
		require.Eventually(t, func() bool {
			_, text := s.request(tenant, "", http.MethodGet, "/api/v1/query?query=ALERTS", "")
			return tenant == "beta" || strings.Contains(text, "firing")
		}, time.Minute, 20*time.Millisecond)
		_, groups := s.request(tenant, "", http.MethodGet, "/api/v1/rules", "")
		require.Contains(t, groups, fmt.Sprintf(`"tenant":%q`, tenant))
		_, names := s.request(tenant, "", http.MethodGet, "/api/v1/label/__name__/values", "")
		_, alerts := s.request(tenant, "", http.MethodGet, "/api/v1/label/alertname/values", "")
		for of, texts := range visible {
			for _, text := range texts {
				require.Equal(t, of == tenant, strings.Contains(groups, fmt.Sprintf(`"name":%q`, text)), "%s of %s", text, tenant)
				require.Equal(t, of == tenant, strings.Contains(names+alerts, fmt.Sprintf("%q", text)), "%s of %s", text, tenant)
			}
		}
	}
	status, text := s.request("acme", "", http.MethodGet, "/api/v1/query?query=ALERTS", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, `"of":"acme"`)
	require.NotContains(t, text, `"of":"default"`)
}

// TestBackfill: backfilled results are at the times of the server's own evaluations, equal what the rules give, and stay the same
// when the command is repeated.
func TestBackfill(t *testing.T) {
	t.Parallel()
	s := startRules(t, t.TempDir(), "127.0.0.1:1", "--no-web.self-scrape")
	s.putRules(t, `
groups:
- {name: second, interval: 1s, rules: [{record: temps:max, expr: max(temp:double)}, {alert: A, expr: temp > 1000}]}
- {name: first, interval: 1s, rules: [{record: temp:double, expr: 2 * temp, labels: {job: rules}}, {record: t, expr: time()}]}
`)
	status, text, _ := s.post("/-/reload", nil)
	require.Equal(t, http.StatusOK, status, text)
	now := time.Now()
	var points []point
	for ago := 100; ago > 60; ago-- { // the series ends a minute ago
		points = append(points, point{
			metric: "temp", instance: "a", tsMs: now.Add(-time.Duration(ago) * time.Second).UnixMilli(), value: float64(ago),
		})
	}
	points = append(points, point{
		metric: "temp", instance: "a", tsMs: now.UnixMilli() - 60_000, value: math.Float64frombits(value.StaleNaN),
	})
	s.write(points)
	require.Eventually(t, func() bool { return s.has(`t`) }, time.Minute, 20*time.Millisecond)
	file := filepath.Join(filepath.Dir(s.config), "rules.yml")
	backfill := func(flags ...string) string {
		out, err := tsdb(t, append([]string{
			"rules", "backfill", "--url", s.url, "--from", now.Add(-2 * time.Minute).Format(time.RFC3339),
			"--to", now.Format(time.RFC3339), "--window", "17s", file,
		}, flags...)...)
		require.NoError(t, err, out)
		return out
	}
	require.Contains(t, backfill("--dry-run"), "t: would store 1")
	require.False(t, s.has("temp:double offset 70s"))
	before := backfill()
	require.Contains(t, before, "temp:double: stored 40 samples of 1 series, and 1 stale markers")
	require.Contains(t, before, "temps:max: stored 40 samples of 1 series, and 1 stale markers")
	require.Contains(t, before, "1 alerting rules are left out")
	require.Equal(t, before, backfill())
	values := func(query string) [][2]any {
		_, a := s.get("/api/v1/query", url.Values{"query": {query}})
		var response struct{ Result []struct{ Values [][2]any } }
		require.NoError(t, json.Unmarshal(a.Data, &response))
		return response.Result[0].Values
	}
	require.Greater(t, len(values("t[3m]")), 110)
	last := 0.0
	for _, v := range values("t[3m]") {
		at := v[0].(float64)
		require.Equal(t, strconv.FormatFloat(at, 'f', -1, 64), v[1])
		require.True(t, last == 0 || math.Abs(at-last-1) < 1e-6 || at-last > 1.5, "evaluations at %f and %f", last, at)
		last = at
	}
	for _, v := range values("temp:double[5m]")[10:13] {
		at := strconv.FormatFloat(v[0].(float64), 'f', 3, 64)
		_, a := s.get("/api/v1/query", url.Values{"query": {"2 * max(temp)"}, "time": {at}})
		require.Contains(t, string(a.Data), fmt.Sprintf(`"%s"]`, v[1]))
	}
	require.False(t, s.has(`temps:max offset 58s`), "the stale marker ends the series")
}

// TestShippedAlerts: a server evaluates the alerts that Halite ships, all metrics of them exist, and none fires.
func TestShippedAlerts(t *testing.T) {
	t.Parallel()
	const shipped = "../../grafana/alerts.yml"
	text, err := os.ReadFile(shipped)
	require.NoError(t, err)
	s := startRules(t, t.TempDir(), "127.0.0.1:1", "--web.self-scrape-interval=1s")
	s.putRules(t, strings.ReplaceAll(string(text), "    rules:\n", "    interval: 1s\n    rules:\n"))
	status, body, _ := s.post("/-/reload", nil)
	require.Equal(t, http.StatusOK, status, body)
	p := parser.NewParser(parser.Options{})
	groups, errs := rulefmt.ParseFile(shipped, false, model.UTF8Validation, p, slog.New(slog.DiscardHandler))
	require.Empty(t, errs)
	names := make(map[string]bool)
	for _, g := range groups.Groups {
		for i := range g.Rules {
			expr, err := p.ParseExpr(g.Rules[i].Expr)
			require.NoError(t, err)
			parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
				if v, ok := n.(*parser.VectorSelector); ok {
					names[v.Name] = true
				}
				return nil
			})
		}
	}
	require.Greater(t, len(names), 20)
	for name := range names {
		require.Eventually(t, func() bool { return s.has(name) }, time.Minute, 50*time.Millisecond, name)
	}
	require.Eventually(t, func() bool {
		for _, r := range s.rules() {
			if r.Health != "ok" {
				return false
			}
		}
		return true
	}, time.Minute, 50*time.Millisecond)
	for _, r := range s.rules() {
		require.NotEqual(t, "firing", r.State, "%s %v", r.Name, r.Alerts)
	}
}
