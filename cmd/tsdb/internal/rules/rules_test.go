package rules

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"halite/cmd/tsdb/internal/config"
	"halite/ingest"
	"halite/ingest/batch"
	"halite/keyschema"
	"halite/query"
	"halite/storage/principal"
)

// stored takes what an appender writes.
type stored struct {
	samples  int
	response ingest.Result
	err      error
	who      *principal.Principal
}

func (s *stored) write(ctx context.Context, in ingest.Input) (ingest.Result, error) {
	var b batch.Batch
	b.Reset(batch.Bounds{ItemsMax: 1000})
	if err := in.Parse(&b); err != nil {
		return ingest.Result{}, err
	}
	s.samples += b.Count()
	s.who = principal.From(ctx)
	return s.response, s.err
}

// TestAppender: the results of a rule are one write, and the rule gets its errors.
func TestAppender(t *testing.T) {
	to := &stored{}
	app := (&appendable{write: to.write}).Appender(t.Context())
	app.SetOptions(nil)
	require.NoError(t, app.Commit(), "nothing to write")
	ls := labels.FromStrings("__name__", "a")
	_, err := app.Append(0, ls, 1000, 1)
	require.NoError(t, err)
	_, err = app.AppendHistogram(0, ls, 2000, nil, &histogram.FloatHistogram{})
	require.NoError(t, err)
	require.Zero(t, to.samples)
	require.NoError(t, app.Commit())
	require.Equal(t, 2, to.samples)
	_, err = app.Append(0, ls, 3000, 1)
	require.NoError(t, err)
	require.NoError(t, app.Rollback())
	require.NoError(t, app.Commit())
	require.Equal(t, 2, to.samples)

	to.response = ingest.Result{Rejected: 1, Reasons: map[string]int{"series_limit": 1}, First: "a: too many"}
	_, err = app.Append(0, ls, 3000, 1)
	require.NoError(t, err)
	require.ErrorContains(t, app.Commit(), "too many")
	to.err = ingest.ErrClosed
	_, err = app.Append(0, ls, 3000, 1)
	require.NoError(t, err)
	require.ErrorIs(t, app.Commit(), ingest.ErrClosed)
	_, err = app.AppendSTZeroSample(0, ls, 1, 1)
	require.Error(t, err)
}

// TestStaleMarkers: a stale marker hides no sample that another rule has written to the same series.
func TestStaleMarkers(t *testing.T) {
	to := &stored{}
	all := &appendable{write: to.write}
	append1 := func(name string, tsMs int64, v float64) error {
		app := all.Appender(t.Context())
		_, err := app.Append(0, labels.FromStrings("__name__", name), tsMs, v)
		require.NoError(t, app.Commit())
		return err
	}
	stale := math.Float64frombits(value.StaleNaN)
	require.NoError(t, append1("a", 5000, stale), "the first sample that is known")
	require.NoError(t, append1("a", 6000, 1))
	require.ErrorIs(t, append1("a", 6000, stale), promstorage.ErrOutOfOrderSample)
	require.ErrorIs(t, append1("a", 5000, stale), promstorage.ErrOutOfOrderSample)
	require.NoError(t, append1("b", 6000, stale))
	require.NoError(t, append1("a", 7000, stale))
	hour := lastKept.Milliseconds()
	require.NoError(t, append1("b", 8000+hour, 1))
	require.ErrorIs(t, append1("a", 6000, stale), promstorage.ErrOutOfOrderSample, "known for an hour at least")
	require.NoError(t, append1("b", 9000+2*hour, 1))
	require.NoError(t, append1("a", 6000, stale), "expired")
	require.LessOrEqual(t, len(all.last.current)+len(all.last.before), 2)
}

// TestQueryFunc: results are the rule manager's own, and a query that ends because the server stops does not fail the rule.
func TestQueryFunc(t *testing.T) {
	h := &histogram.FloatHistogram{Count: 3}
	var result query.Result
	var err error
	run := func(ctx context.Context) (promql.Vector, error) {
		return queryFunc(func(_ context.Context, r query.InstantRequest) (*query.Result, error) {
			require.True(t, r.NoCache)
			require.Equal(t, int64(1500), r.TimeMs)
			copied := result
			return &copied, err
		})(ctx, "x", time.UnixMilli(1500))
	}
	result.Value = promql.Vector{{T: 1500, H: h}}
	v, got := run(t.Context())
	require.NoError(t, got)
	h.Count = 4
	require.Equal(t, 3.0, v[0].H.Count)
	result.Value = promql.Scalar{T: 1500, V: 7}
	v, got = run(t.Context())
	require.NoError(t, got)
	require.Equal(t, promql.Vector{{T: 1500, F: 7}}, v)
	result.Value = promql.Matrix{}
	_, got = run(t.Context())
	require.ErrorContains(t, got, "must be a vector or a scalar")
	err = errors.New("too slow")
	_, got = run(t.Context())
	require.ErrorIs(t, got, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, got = run(ctx)
	require.ErrorAs(t, got, new(promql.ErrQueryCanceled))
}

func write(t testing.TB, dir, name, text string) string {
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestReadFiles: the faults of all files are listed with their places.
func TestReadFiles(t *testing.T) {
	dir, p := t.TempDir(), query.NewParser(query.Options{})
	a := write(t, dir, "a.yml",
		"groups: [{name: g, rules: [{record: x, expr: up}, {alert: A, expr: up == 0}]}]")
	b := write(t, dir, "b.yml", "groups: [{name: g, rules: [{record: y, expr: up}]}, {name: h}]")
	f, err := ReadFiles([]string{filepath.Join(dir, "b*"), filepath.Join(dir, "*.yml"), filepath.Join(dir, "none*")}, p)
	require.NoError(t, err)
	require.Equal(t, []string{b, a}, f.Paths)
	require.Equal(t, "2 rule files with 3 groups, 2 recording rules, 1 alerting rules", f.Summary())
	require.Len(t, f.Groups(b), 2)
	_, errs := f.Load(filepath.Join(dir, "c.yml"), "default")
	require.ErrorIs(t, errs[0], os.ErrNotExist)

	_, err = ReadFiles([]string{filepath.Join(dir, "none.yml")}, p)
	require.ErrorIs(t, err, os.ErrNotExist)
	write(t, dir, "c.yml",
		"groups:\n- name: g\n  rules:\n  - {record: x, expr: sum(}\n  - {alert: A, expr: up, annotations: {x: '{{ nope }}'}}")
	write(t, dir, "d.yml", "groups: [{nam: g}]")
	_, err = ReadFiles([]string{filepath.Join(dir, "*.yml")}, p)
	require.ErrorContains(t, err, `c.yml: 4:23: group "g", rule 1, "x": could not parse expression`)
	require.ErrorContains(t, err, `c.yml: group "g", rule 2, "A": annotation "x": template: __alert_A`)
	require.ErrorContains(t, err, "d.yml: yaml: unmarshal errors:\n  line 1: field nam not found")
	write(t, dir, "e.yml", "groups:\n- {name: g, interval: 1, rules: [{alert: A, expr: up, for: x, labels: {for: 2}}]}\n")
	_, err = ReadFiles([]string{filepath.Join(dir, "e.yml")}, p)
	require.EqualError(t, err, filepath.Join(dir, "e.yml")+`: 2:23: interval: not a valid duration string: "1"`+"\n"+
		`2:60: for: not a valid duration string: "x"`)
	_, _, err = parseFile("x", []byte("groups: [{name: g}]\n---\ngroups: [{name: h}]"), p)
	require.ErrorContains(t, err, "x: 2:1: a second document begins; a rule file has one")
	_, _, err = parseFile("x", []byte("groups: []\n---\n}"), p)
	require.ErrorContains(t, err, "x: yaml: ")
	for _, one := range []string{"", "---\ngroups: [{name: g}]\n", "groups: [{name: g}]\n---\n# end\n", "# nothing"} {
		_, _, err = parseFile("x", []byte(one), p)
		require.NoError(t, err, "%q", one)
	}
	_, _, err = parseFile("x", make([]byte, FileBytesMax+1), p)
	require.ErrorIs(t, err, ErrFileBytes)
}

// FuzzParseFile: a rule file is groups whose expressions parse, or an error that names the file.
func FuzzParseFile(f *testing.F) {
	for _, src := range []string{
		"", "groups: [{name: g, interval: 1m, rules: [{record: x, expr: up, labels: {a: b}}]}]", "groups: &x [*x]", "groups: {",
		"groups: [{name: g, rules: [{alert: A, expr: up, for: 5m, annotations: {s: '{{ $value }}'}}]}]", "a: b\n---\nc: d",
		"groups: [{name: g, tenant: acme, rules: []}, {name: h, tenant: &x [], rules: []}, {name: i, tenant: }]",
	} {
		f.Add([]byte(src))
	}
	p := query.NewParser(query.Options{})
	f.Fuzz(func(t *testing.T, src []byte) {
		groups, tenants, err := parseFile("f.yml", src, p)
		if err != nil {
			require.Contains(t, err.Error(), "f.yml: ")
			return
		}
		for _, tenant := range tenants {
			require.NoError(t, keyschema.CheckTenant(tenant))
		}
		for _, g := range groups.Groups {
			for i := range g.Rules {
				_, err := p.ParseExpr(g.Rules[i].Expr)
				require.NoError(t, err)
			}
		}
	})
}

// nothing is a Queryable without series.
type nothing struct{}

func (nothing) Querier(int64, int64) (promstorage.Querier, error) {
	return promstorage.NoopQuerier(), nil
}

// TestManager: rules belong to their principal, Apply refuses what does not load, and Run ends soon.
func TestManager(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yml", "groups: [{name: g, interval: 10ms, rules: [{record: x, expr: vector(1)}]}, "+
		"{name: h, tenant: acme, interval: 10ms, rules: [{record: y, expr: vector(1)}]}]")
	read, err := config.Parse("f", []byte(`{rule_files: [a.yml], alerting: {alertmanagers: [{static_configs: [{targets: [am]}]}]}}`))
	require.NoError(t, err)
	p := query.NewParser(query.Options{})
	settings, err := Load(read, dir, p)
	require.NoError(t, err)
	wrote := make(chan string)
	m, err := New(Options{
		Evaluate: func(_ context.Context, r query.InstantRequest) (*query.Result, error) {
			return &query.Result{Value: promql.Vector{{T: r.TimeMs, F: 1}}}, nil
		},
		Write: func(ctx context.Context, _ ingest.Input) (ingest.Result, error) {
			select {
			case wrote <- principal.From(ctx).Name:
			case <-ctx.Done():
			}
			return ingest.Result{}, nil
		},
		Queryable: nothing{}, ExternalURL: "http://h",
		Principal: func(tenant string) *principal.Principal { return &principal.Principal{Name: tenant} },
		Flags:     Flags{QueueMax: 10}, StopTimeout: time.Minute,
		Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	defer m.Close()
	require.NoError(t, m.Apply(settings))
	require.Len(t, m.RuleGroups(), 2)
	for name, tenant := range map[string]string{"g": "default", "h": "acme"} {
		require.Equal(t, tenant, m.Tenant(filepath.Join(dir, "a.yml"), name))
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		m.Run(ctx)
		close(ended)
	}()
	require.Equal(t, "acme", await(wrote, "acme"))
	require.Equal(t, "default", await(wrote, "default"))
	write(t, dir, "a.yml", "groups: [{name: h, tenant: beta, interval: 10ms, rules: [{record: y, expr: vector(1)}]}]")
	moved, err := Load(read, dir, p)
	require.NoError(t, err)
	applied := make(chan error)
	go func() { applied <- m.Apply(moved) }()
	require.Equal(t, "beta", await(wrote, "beta"), "the group has another tenant while the manager runs")
	require.NoError(t, <-applied)
	for _, g := range m.RuleGroups() {
		require.Equal(t, "beta", m.Tenant(g.File(), g.Name()))
	}
	go func() {
		for range wrote {
		}
	}()
	require.Eventually(t, func() bool { return len(m.Alertmanagers()) == 1 }, time.Minute, time.Millisecond)
	require.Empty(t, m.DroppedAlertmanagers())
	stop()
	<-ended

	read.Alerting.Alertmanagers[0].TLSConfig = &config.TLSConfig{CAFile: "none.pem"}
	_, err = Load(read, dir, p)
	require.ErrorContains(t, err, "alerting.alertmanagers[0]: unable to read CA cert")
}

// TestApplyBeforeRun applies changed groups before Run. Apply waits until the old groups run, and Run starts them.
func TestApplyBeforeRun(t *testing.T) {
	dir, p := t.TempDir(), query.NewParser(query.Options{})
	m, err := New(Options{
		Evaluate: func(_ context.Context, r query.InstantRequest) (*query.Result, error) {
			return &query.Result{Value: promql.Vector{{T: r.TimeMs, F: 1}}}, nil
		},
		Write:     func(context.Context, ingest.Input) (ingest.Result, error) { return ingest.Result{}, nil },
		Queryable: nothing{}, ExternalURL: "http://h", Flags: Flags{QueueMax: 10}, StopTimeout: time.Minute,
		Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	defer m.Close()
	load := func(record string) *Settings {
		write(t, dir, "a.yml", "groups: [{name: g, rules: [{record: "+record+", expr: vector(1)}]}]")
		read, err := config.Parse("f", []byte(`{rule_files: [a.yml]}`))
		require.NoError(t, err)
		settings, err := Load(read, dir, p)
		require.NoError(t, err)
		return settings
	}
	require.NoError(t, m.Apply(load("old")))
	next, applied := load("new"), make(chan error, 1)
	go func() { applied <- m.Apply(next) }()
	require.Eventually(t, func() bool {
		free := m.mu.TryLock()
		if free {
			m.mu.Unlock()
		}
		return !free
	}, time.Minute, time.Millisecond, "Apply waits for the old group")
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	require.NoError(t, <-applied)
	require.Equal(t, "new", m.RuleGroups()[0].Rules()[0].Name())
	stop()
	running.Wait()
}

// await receives until it gets what it wants.
func await(from <-chan string, want string) string {
	for got := range from {
		if got == want {
			return got
		}
	}
	return ""
}

// TestTenantsOfGroups: a group names a valid tenant, or the file is refused.
func TestTenantsOfGroups(t *testing.T) {
	dir, p := t.TempDir(), query.NewParser(query.Options{})
	a := write(t, dir, "a.yml", "groups: [{name: g, tenant: acme, rules: []}, "+
		"{name: h, rules: []}, {name: i, tenant: acme, rules: []}]")
	f, err := ReadFiles([]string{a}, p)
	require.NoError(t, err)
	require.Equal(t, []string{"acme"}, f.Tenants())
	require.Equal(t, "acme", f.Tenant(a, "i"))
	require.Equal(t, "default", f.Tenant(a, "h"))
	for tenant, want := range map[string][]string{"acme": {"g", "i"}, "default": {"h"}, "beta": nil} {
		groups, errs := f.Load(a, tenant)
		require.Empty(t, errs)
		var names []string
		for _, g := range groups.Groups {
			names = append(names, g.Name)
		}
		require.Equal(t, want, names)
	}
	err = f.RequireNoTenants()
	require.ErrorIs(t, err, ErrNoTenants)
	require.ErrorContains(t, err, a+`: group "i" has the tenant "acme": the server has no --tenants`)
	for src, want := range map[string]string{
		"groups: [{name: g, tenant: 'a b'}]":                            `a.yml: 1:28: group "g", tenant: `,
		"groups:\n- name: g\n  tenant:":                                 `a.yml: 3:10: group "g", tenant: want the name of a tenant`,
		"groups: [{name: g, tenant: [a]}]":                              `a.yml: 1:28: group "g", tenant: want the name of a tenant`,
		"groups: [{name: g, tenants: a}]":                               "line 1: field tenants not found",
		"tenant: acme":                                                  "line 1: field tenant not found",
		"groups: [{name: g, rules: [{record: a, expr: b, tenant: c}]}]": "line 1: field tenant not found",
	} {
		_, err := ReadFiles([]string{write(t, dir, "a.yml", src)}, p)
		require.ErrorContains(t, err, want, src)
	}
}

// TestFlags: each fault is named.
func TestFlags(t *testing.T) {
	require.NoError(t, (&Flags{QueueMax: 1}).Validate())
	err := (&Flags{ResendDelay: -1}).Validate()
	require.ErrorContains(t, err, "--rules.alert.resend-delay must not be negative")
	require.ErrorContains(t, err, "--alertmanager.notification-queue-capacity must be above 0")
}
