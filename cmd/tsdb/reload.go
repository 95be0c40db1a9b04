package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql/parser"

	"halite/api/receiver/influx"
	"halite/api/receiver/otlp"
	"halite/cmd/tsdb/internal/config"
	"halite/cmd/tsdb/internal/rules"
	"halite/cmd/tsdb/internal/tables"
	"halite/ingest"
	"halite/keyschema"
	"halite/query"
	"halite/query/promadapter"
	"halite/storage/principal"
)

const (
	// reloadWait bounds the storing of new rules.
	reloadWait = 30 * time.Second
	// reloadMargin is the time between the last hour that may have samples and the first hour of new rules. It is longer
	// than reloadWait. So the server accepts no sample of the rules' hours before the rules are in force.
	reloadMargin = time.Minute
)

// readConfig reads the configuration file; without one it returns an empty configuration.
func (c *serveConfig) readConfig() (*config.Config, error) {
	if c.configFile == "" {
		return &config.Config{}, nil
	}
	read, err := config.Read(c.configFile)
	if err != nil {
		return nil, fmt.Errorf("--config.file: %w", err)
	}
	return read, nil
}

// wantedRules returns the rules of a configuration file. Without a file it returns the demo's rules, if this is a demo.
// Nil leaves the stored rules in force.
func (c *serveConfig) wantedRules(read *config.Config) []keyschema.Rule {
	if c.configFile == "" {
		return c.demoRules
	}
	return append([]keyschema.Rule{}, read.Rules()...)
}

// loadRules reads the rule files of a configuration. It refuses tenants unless the server has them.
func (c *serveConfig) loadRules(read *config.Config, p parser.Parser) (*rules.Settings, error) {
	settings, err := rules.Load(read, filepath.Dir(c.configFile), p)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.configFile, err)
	}
	if !c.web.tenants.on {
		if err := settings.RequireNoTenants(); err != nil {
			return nil, fmt.Errorf("%s: %w", c.configFile, err)
		}
	}
	return settings, nil
}

// checkRuleFiles reads the rule files before the server listens.
func (c *serveConfig) checkRuleFiles() error {
	read, err := c.readConfig()
	if err == nil {
		c.ruleSettings, err = c.loadRules(read, query.NewParser(query.Options{Experimental: c.queryExperimental}))
	}
	return err
}

// openRuleManager opens the manager of rules. Its Run starts the rules. url is the address of the server in alerts.
func (db *database) openRuleManager(c *serveConfig, url string, r prometheus.Registerer, log *slog.Logger) (err error) {
	o := rules.Options{
		Evaluate: db.evaluateRule, Write: db.writeOfRules, Queryable: promadapter.New(db.reader), ExternalURL: url,
		Flags: c.alerts, StopTimeout: c.web.shutdownTimeout, Registerer: r, Logger: log,
	}
	if db.tenancy != nil {
		o.Principal = func(tenant string) *principal.Principal {
			return &principal.Principal{Name: "rules", Scopes: principal.Every, Tenants: []string{tenant}}
		}
	}
	db.rules, err = rules.New(o)
	return err
}

// evaluateRule answers the query of a rule. It takes the CPUs of the rule's tenant, as other queries of the tenant do.
func (db *database) evaluateRule(ctx context.Context, r query.InstantRequest) (*query.Result, error) {
	if db.tenancy != nil {
		ctx = db.tenancy.Active(ctx)
	}
	return db.engine.Instant(ctx, r)
}

// writeOfRules stores results of rules. A tenant may be new, as for other writes, or refused because it is being dropped.
func (db *database) writeOfRules(ctx context.Context, in ingest.Input) (ingest.Result, error) {
	if who := principal.From(ctx); who != nil {
		ctx = db.tenancy.Active(ctx)
		for _, tenant := range who.Tenants {
			if err := db.tenantList.Ensure(ctx, tenant); err != nil {
				return ingest.Result{}, err
			}
		}
	}
	return db.ingester.Write(ctx, in)
}

// lastHour returns the last hour that may have samples before a change of rules takes effect.
func (c *serveConfig) lastHour() int64 {
	return keyschema.HourOf(c.clock()().Add(c.aheadOrDefault() + reloadMargin).UnixMilli())
}

// apply applies a configuration. If it refuses one, the previous configuration stays in force.
func (db *database) apply(ctx context.Context, c *serveConfig, read *config.Config) error {
	err := db.changeRetention(ctx, c, c.wantedRules(read), func() error { return db.applyOthers(ctx, c, read) })
	if err == nil {
		db.config = read
	}
	return err
}

// applyOthers applies everything but the retention. Schema rules come last among the steps that can fail, because no
// step can undo them. If they fail, the previous aliases and relabelling rules return.
func (db *database) applyOthers(ctx context.Context, c *serveConfig, read *config.Config) error {
	before, undo := db.config, context.WithoutCancel(ctx)
	if err := db.aliases.Configure(ctx, read.QueryAliases()); err != nil {
		return fmt.Errorf("%s: aliases: %w", c.configFile, err)
	}
	if err := db.ingester.SetRelabelling(ctx, read.Relabelling(), read.HATracker()); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", c.configFile, err), db.aliases.Configure(undo, before.QueryAliases()))
	}
	if err := db.applyRules(ctx, c, read); err != nil {
		return errors.Join(err, db.ingester.SetRelabelling(undo, before.Relabelling(), before.HATracker()),
			db.aliases.Configure(undo, before.QueryAliases()))
	}
	db.ingester.SetLimits(read.SamplesPerSecond(), read.Series())
	db.ingester.SetTenantLimits(read.TenantWrites())
	db.limits.Set(read.Queries())
	db.engine.SetSubqueryStep(read.Global.Interval())
	return nil
}

// applyRules applies the schema rules of a configuration. The error says why the store refuses them.
func (db *database) applyRules(ctx context.Context, c *serveConfig, read *config.Config) error {
	wanted := c.wantedRules(read)
	if wanted == nil {
		return nil
	}
	change := tables.SchemaChange{
		Store: db.store, Schema: db.schema,
		Stray: func(ctx context.Context, fromMs int64) ([]string, error) {
			return db.index.LabelValues(ctx, "__name__", fromMs, keyschema.TimeMaxMs, 1)
		},
	}
	if err := change.Apply(ctx, wanted, c.lastHour()); err != nil {
		return fmt.Errorf("%s: %w", c.configFile, err)
	}
	return nil
}

// reloader applies the configuration file while the server runs.
type reloader struct {
	flags *serveConfig
	db    *database

	mu       sync.Mutex      // held during a reload
	settings *rules.Settings // in force
	current  atomic.Pointer[config.Config]
	state    sync.Mutex // guards the fields below
	loaded   bool       // the last reload succeeded
	at       time.Time  // time of the last successful reload
}

// newReloader begins with the configuration that was loaded at the start.
func newReloader(c *serveConfig, db *database, r prometheus.Registerer) *reloader {
	x := &reloader{flags: c, db: db, settings: c.ruleSettings, loaded: true, at: c.clock()()}
	x.current.Store(db.config)
	successful := func() float64 {
		if ok, _ := x.last(); !ok {
			return 0
		}
		return 1
	}
	since := func() float64 {
		_, at := x.last()
		return float64(at.UnixMilli()) / 1e3
	}
	// Existing alerts for Prometheus use the second prefix.
	for _, prefix := range []string{"tsdb_", "prometheus_"} {
		for name, gauge := range map[string]struct {
			help  string
			value func() float64
		}{
			"config_last_reload_successful":                {"Whether the last reload of the configuration succeeded.", successful},
			"config_last_reload_success_timestamp_seconds": {"Time of the last successful load of the configuration.", since},
		} {
			r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: prefix + name, Help: gauge.help}, gauge.value))
		}
	}
	return x
}

func (x *reloader) last() (ok bool, at time.Time) {
	x.state.Lock()
	defer x.state.Unlock()
	return x.loaded, x.at
}

// Config returns the configuration in force as YAML.
func (x *reloader) Config() string { return x.current.Load().Text() }

// influx returns the options of InfluxDB's line protocol in force.
func (x *reloader) influx() influx.Options { return x.current.Load().InfluxOptions() }

// otlp returns the options of OTLP in force.
func (x *reloader) otlp() otlp.Options { return x.current.Load().OTLPOptions(x.flags.queryLookback) }

// Reload reopens the query log, reads the access files, and applies the configuration file. If a file is invalid, its
// previous content stays in force and the error says why. Without files Reload succeeds.
func (x *reloader) Reload(ctx context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	reopened := errors.Join(x.db.queryLog.Reopen(), x.flags.web.auth.Reload())
	err := errors.Join(x.reload(ctx), reopened)
	x.state.Lock()
	defer x.state.Unlock()
	if x.loaded = err == nil; x.loaded {
		x.at = x.flags.clock()()
	}
	return err
}

func (x *reloader) reload(ctx context.Context) error {
	next, err := x.flags.readConfig()
	if err != nil {
		return err
	}
	settings, err := x.flags.loadRules(next, x.db.engine.Parser())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, reloadWait)
	defer cancel()
	if err = x.db.rules.Apply(settings); err != nil {
		err = fmt.Errorf("%s: %w", x.flags.configFile, err)
	} else {
		err = x.db.apply(ctx, x.flags, next)
	}
	if err != nil {
		return errors.Join(err, x.db.rules.Apply(x.settings))
	}
	x.settings = settings
	x.current.Store(next)
	return nil
}

// catchHangups catches SIGHUP, which would otherwise end the process.
func catchHangups() (hangups chan os.Signal) {
	hangups = make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	return hangups
}

// reloadOn reloads at each SIGHUP until ctx ends.
func (x *reloader) reloadOn(ctx context.Context, hangups <-chan os.Signal, log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
		}
		if err := x.Reload(ctx); err != nil {
			log.Error("reload failed; what could not be reloaded stays as it was", "err", err)
			continue
		}
		log.Info("reloaded", "config_file", x.flags.configFile, "query_log", x.db.queryLog.Logs())
	}
}
