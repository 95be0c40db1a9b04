package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/grafana/regexp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/term"

	"halite/api"
	"halite/api/doctor/facts"
	"halite/api/netlimit"
	"halite/api/senders"
	"halite/cmd/tsdb/internal/datadir"
	"halite/cmd/tsdb/internal/opentsdb"
	"halite/cmd/tsdb/internal/tables"
	otsdbquery "halite/query/opentsdb"
	"halite/query/promadapter"
)

// serveUntilSignal runs the server until SIGTERM or SIGINT, then drains it.
func serveUntilSignal(c *serveConfig) error {
	if err := c.Validate(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once; the log holds all acknowledged samples
	out := io.Discard
	if term.IsTerminal(int(os.Stdout.Fd())) {
		out = os.Stdout
	}
	return serve(ctx, c, c.logger(), out)
}

// serve listens first, so that senders get 503 while the log is replayed. Then it opens the store, and serves until ctx
// ends. It writes messages for the user to out.
func serve(ctx context.Context, c *serveConfig, log *slog.Logger, out io.Writer) (err error) {
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	c.fitMemory(log)
	defer paceCollector()()
	hangups := catchHangups()
	defer signal.Stop(hangups)
	registry := c.metrics
	if registry == nil {
		registry = newRegistry()
	}
	gate := newGate()
	c.replaying, c.waiting = gate.replaying, gate.wait
	c.senders = senders.New(senders.Options{SendersMax: c.sendersMax, Now: c.clock(), Logger: log})
	listener, httpServer, err := c.listen(gate, log, registry)
	if err != nil {
		return err
	}
	failed := make(chan error, 4)
	go func() { failed <- serveHTTP(httpServer, listener) }()
	c.locked = sync.OnceFunc(func() { logStart(c, log, listener.Addr()) })
	port, err := c.opentsdb.Listen(c.web.insecure, log)
	if err != nil {
		return errors.Join(err, httpServer.Close())
	}
	defer port.Cut()

	began := time.Now()
	db, err := openWhenPossible(ctx, c, log, gate, registry)
	if err != nil {
		return errors.Join(err, httpServer.Close())
	}
	reloads := newReloader(c, db, registry)
	server, err := c.openAPI(db, gate, reloads, quit, registry, log, listener.Addr())
	if err == nil {
		err = c.servePort(port, gate, db, registry, log, failed)
	}
	if err == nil {
		err = db.rules.Apply(c.ruleSettings)
	}
	if err != nil {
		return errors.Join(err, httpServer.Close(), db.close(ctx))
	}
	if c.engine == tables.EnginePebble { // each scrape would send requests to Bigtable
		registry.MustRegister(tables.NewTabletCollector(db.store))
	}
	gate.open(server.Handler())
	log.Info("ready", "after", time.Since(began).Round(time.Millisecond), "url", c.reachedAt(listener.Addr()))
	fmt.Fprintf(out, connectText, c.reachedAt(listener.Addr()))

	working, stopWork := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { reloads.reloadOn(working, hangups, log) })
	work.Go(func() { c.web.auth.Watch(working) })
	if c.web.selfScrape {
		work.Go(func() { newSelfScraper(c, db, registry, listener.Addr(), log).run(working) })
	}
	c.watch(working, &work, db, c.reachedAt(listener.Addr()), log, failed)
	select {
	case <-ctx.Done():
		log.Info("stopping: no new requests, finishing running ones")
	case err = <-failed:
	}
	gate.stop()
	stopWork()
	work.Wait()
	return errors.Join(err, drain(c, httpServer, port, db, log))
}

// openAPI makes the rule manager and the API of an open database.
func (c *serveConfig) openAPI(
	db *database, gate *gate, reloads *reloader, quit func(), registry metricRegistry, log *slog.Logger, address net.Addr,
) (*api.Server, error) {
	if err := db.openRuleManager(c, c.reachedAt(address), registry, log); err != nil {
		return nil, err
	}
	return newAPI(c, db, gate, reloads, quit, registry, log)
}

// watch runs the rules, the watch for failures of the store, and c.background, concurrently with the API. The last two may
// end the server.
func (c *serveConfig) watch(
	working context.Context, work *sync.WaitGroup, db *database, url string, log *slog.Logger, failed chan<- error,
) {
	work.Go(func() { db.rules.Run(working) })
	if c.exitOnFailure {
		work.Go(func() {
			if err := db.watchFailure(working); err != nil {
				failed <- err
			}
		})
	}
	if c.background != nil {
		work.Go(func() {
			if err := c.background(working, db.ingester, url, log); err != nil {
				failed <- err
			}
		})
	}
}

// listen opens the address of the API, with the limits of connections and the check of hosts in front of gate.
func (c *serveConfig) listen(
	gate *gate, log *slog.Logger, registry metricRegistry,
) (_ net.Listener, _ *http.Server, err error) {
	if err := c.fitDescriptors(datadir.DescriptorLimit(), log); err != nil {
		return nil, nil, err
	}
	c.web.limiter, err = netlimit.New(netlimit.Options{
		ConnectionsMax: c.web.connectionsMax, SendTimeout: c.web.sendTimeout, HeaderBytesMax: int(c.web.headerBytesMax),
		Registerer: registry, Logger: log,
	})
	if err != nil {
		return nil, nil, err
	}
	if err := c.web.checkURL(); err != nil {
		return nil, nil, err
	}
	if err := c.checkRuleFiles(); err != nil {
		return nil, nil, err
	}
	listener, err := net.Listen("tcp", c.web.listenAddress)
	if err != nil {
		return nil, nil, fmt.Errorf("--web.listen-address: %w", err)
	}
	if err := c.web.openAuth(listener.Addr(), registry, log); err != nil {
		return nil, nil, errors.Join(err, listener.Close())
	}
	check, err := c.web.hostCheck(listener.Addr(), registry)
	if err != nil {
		return nil, nil, errors.Join(err, listener.Close())
	}
	if c.web.profiles {
		gate.profile(c.web.auth)
	}
	check.Refused = func(r *http.Request, err error) {
		if protocol := api.WriteProtocol(r, c.web.routePrefix); protocol != "" {
			c.senders.Refuse(r, protocol, http.StatusForbidden, senders.ReasonHost, err)
		}
	}
	handler := c.web.auth.Headers(check.Handler(withRoutePrefix(c.web.routePrefix, gate)))
	c.web.hosts = check
	server := c.web.limiter.HTTPServer(handler)
	server.TLSConfig = c.web.auth.TLS()
	server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug) // log of failed handshakes
	return c.web.limiter.Listener(listener), server, nil
}

// servePort serves OpenTSDB's clients on their address, if there is one.
func (c *serveConfig) servePort(
	port *opentsdb.Port, gate *gate, db *database, registry metricRegistry, log *slog.Logger, failed chan<- error,
) error {
	if port == nil {
		return nil
	}
	names, err := c.opentsdb.Names(c.labelsMax)
	if err != nil {
		return err
	}
	hosts, err := c.web.hostsOf(port.Addr())
	if err != nil {
		return err
	}
	check, err := c.web.hosts.For(hosts)
	if err != nil {
		return fmt.Errorf("--web.allowed-hosts: %w", err)
	}
	build := readBuildInfo()
	return port.Serve(opentsdb.Options{
		Limiter: c.web.limiter, Main: gate, TLS: c.web.auth.TLS(), Writer: db.ingester, Tenants: db.listOfTenants(),
		Senders: c.senders, Names: names,
		Wrap:     func(next http.Handler) http.Handler { return c.web.auth.Headers(check.Handler(next)) },
		Gatherer: registry, Registerer: registry, Now: c.clock(), Logger: log,
		Version: fmt.Sprintf("Halite %s built at revision %s\nBuilt on %s with %s\n", build.version, build.revision, build.date,
			runtime.Version()),
	}, failed)
}

// serveHTTP serves with TLS if the server has a TLS configuration.
func serveHTTP(server *http.Server, listener net.Listener) error {
	if server.TLSConfig == nil {
		return server.Serve(listener)
	}
	return server.ServeTLS(listener, "", "")
}

// drain finishes the running requests, then flushes and closes the store.
func drain(c *serveConfig, httpServer *http.Server, port *opentsdb.Port, db *database, log *slog.Logger) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), c.web.shutdownTimeout)
	defer cancel()
	if err := httpServer.Shutdown(ctx); err != nil {
		log.Warn("cut off requests", "err", err)
		httpServer.Close()
	}
	if err := port.Close(ctx); err != nil {
		log.Warn("cut off requests of OpenTSDB's clients", "err", err)
	}
	if err := db.closeWithin(c.web.shutdownTimeout); err != nil {
		return err
	}
	log.Info("stopped", "after", time.Since(began).Round(time.Millisecond))
	return nil
}

func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	build := readBuildInfo()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "tsdb_build_info", Help: "Always 1; the labels say what is running.",
		ConstLabels: prometheus.Labels{"version": build.version, "revision": build.revision, "goversion": runtime.Version()},
	})
	info.Set(1)
	registry.MustRegister(info)
	return registry
}

func newAPI(
	c *serveConfig, db *database, gate *gate, reloads *reloader, quit func(), registry metricRegistry, log *slog.Logger,
) (*api.Server, error) {
	var cors *regexp.Regexp
	if c.web.corsOrigin != "" {
		var err error
		if cors, err = regexp.Compile("^(?:" + c.web.corsOrigin + ")$"); err != nil {
			return nil, fmt.Errorf("--web.cors.origin: %w", err)
		}
	}
	names, err := c.opentsdb.Names(c.labelsMax)
	if err != nil {
		return nil, err
	}
	build, started := readBuildInfo(), time.Now()
	var reload func(context.Context) error
	if c.web.lifecycle {
		reload = reloads.Reload
	} else {
		quit = nil
	}
	queries, err := otsdbquery.New(otsdbquery.Options{Runner: db.engine, Names: db.lookup})
	if err != nil {
		return nil, err
	}
	judge, err := db.openDoctor(c, gate, registry, log)
	if err != nil {
		return nil, err
	}
	return api.New(api.Options{
		Writer: db.ingester, Engine: db.engine, Index: db.lookup, Queryable: promadapter.New(db.reader), Budgets: db.reader,
		Metadata: db.ingester,
		Stats:    db, Flusher: db, Deleter: db.deleter, Snapshot: db.snapshots(c, registry),
		Ready: gate.readiness, Refusing: db.refusing, Gatherer: registry, Registerer: registry, Logger: log,
		Build:   api.BuildInfo{Version: build.version, Revision: build.revision, BuildDate: build.date, GoVersion: runtime.Version()},
		Flags:   c.flagValues(),
		Config:  reloads.Config,
		Runtime: func() api.RuntimeInfo { return runtimeInfo(c, reloads, started) },
		Reload:  reload, Quit: quit, Lookback: c.queryLookback, Rules: db.schema.Rules, OwnJob: ownJob,
		DelayedNames: c.queryDelayedNames, AllKinds: db.ingester.Histograms() != nil,
		ExternalURL: c.web.externalURL, RoutePrefix: c.web.routePrefix,
		AdminAPI: c.web.adminAPI, CORSOrigin: cors, Retention: db.sweeper.Costs,
		Doctor:  judge.Report,
		Tablets: db.store, TabletEvents: db.tabletLog, Keyviz: db.keyviz, Tombstones: db.deleted.Len, Deletions: db.deletions,
		SeriesLimits: db.ingester.SeriesLimits, QueryLimits: db.limits,
		TopQueries: db.topQueries, LastReads: db.lastReads, MetricBytes: db.metricBytes,
		Senders: c.senders, Auth: c.web.auth,
		Tenancy: db.tenancy, Tenants: db.tenantAdmin(), TenantUses: db.tenantUses(), RuleManager: db.rules,
		GuardProbes: !c.web.openProbes, OpenTSDBNames: names, OpenTSDB: queries,
		OpenTSDBStats: opentsdb.Stats(registry, c.clock()), Notes: db.notes,
		Aliases:    db.aliases,
		HAClusters: db.ingester.HAClusters, Influx: reloads.influx, OTLP: reloads.otlp,
		Limits: api.Limits{
			WriteBytesMax: c.bodyBytesMax, WriteInflightBytesMax: c.inFlightBytesMax,
			RangePointsMax: c.queryPointsMax, LookupTimeout: c.queryTimeout,
			SelectorsMax: c.querySelectorsMax, FormBytesMax: c.web.formBytesMax, ReadBytesMax: c.web.readBytesMax,
		},
	})
}

// openDoctor opens the collector of facts about the server, and lets it sample counters each minute.
func (db *database) openDoctor(c *serveConfig, gate *gate, r metricRegistry, log *slog.Logger) (*facts.Collector, error) {
	opts := facts.Options{
		Gatherer: r, SeriesLimits: db.ingester.SeriesLimits, Senders: c.senders, Keyviz: db.keyviz, RuleAt: db.schema.RuleAt,
		Sizes: db.index.Sizes, WideRows: db.wideRows.Widest, Now: c.clock(), Logger: log,
		Ready: func() (ready bool, reason string) {
			state, err := gate.readiness(), db.refusing()
			if err != nil {
				return false, err.Error()
			}
			return state.Ready, state.Reason
		},
	}
	if !c.direct() {
		opts.Disk = func() (freeBytes, totalBytes int64, err error) { return datadir.DiskSpace(c.storagePath) }
	}
	judge, err := facts.New(opts)
	if err == nil && !c.noJobs {
		db.jobs.AddNow(time.Minute, judge.Sample)
	}
	return judge, err
}

func runtimeInfo(c *serveConfig, reloads *reloader, started time.Time) api.RuntimeInfo {
	ok, at := reloads.last()
	return api.RuntimeInfo{StartTime: started, ConfigLoaded: ok, ConfigTime: at, StorageRetention: c.retentionText()}
}

func newSelfScraper(c *serveConfig, db *database, g prometheus.Gatherer, addr net.Addr, log *slog.Logger) *selfScraper {
	return &selfScraper{gatherer: g, writer: db.ingester, every: c.web.selfScrapeEvery, instance: addr.String(), log: log}
}

func (c *serveConfig) retentionText() string {
	if c.retentionRaw == 0 {
		return "forever"
	}
	return c.retentionRaw.String()
}

func (c *serveConfig) reachedAt(addr net.Addr) string {
	if c.web.externalURL != "" {
		return c.web.externalURL
	}
	scheme := "http://"
	if c.web.auth.TLS() != nil {
		scheme = "https://"
	}
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return scheme + "localhost:" + strconv.Itoa(tcp.Port) + c.web.routePrefix // a client cannot use the unspecified address
	}
	return scheme + addr.String() + c.web.routePrefix
}

// logStart logs what an operator needs first. The caller calls it once no other process can use the storage.
func logStart(c *serveConfig, log *slog.Logger, addr net.Addr) {
	log.Info("starting Halite", "version", version, "go", runtime.Version(), "pid", os.Getpid())
	log.Info("listening", "address", addr.String(), "admin_api", c.web.adminAPI, "self_scrape", c.web.selfScrape)
	durable := "acknowledged after fdatasync of the log"
	switch {
	case c.direct():
		log.Info("storing", "engine", c.engine, "tables", c.bigtable.Name(), "mode", tables.ModeDirect, "retention", c.retentionText())
		durable = "acknowledged by Bigtable"
	case c.engine == tables.EngineBigtable:
		log.Info("storing", "engine", c.engine, "tables", c.bigtable.Name(), "mode", tables.ModeBuffered, "log", c.storagePath,
			"retention", c.retentionText())
	default:
		log.Info("storing", "path", c.storagePath, "engine", c.engine, "retention", c.retentionText())
	}
	log.Info("durability: a write is " + durable + "; loss window 0 s")
}

// connectText explains how to connect Prometheus and Grafana.
const connectText = `
To send samples from Prometheus, paste this into prometheus.yml and reload it:

remote_write:
  - url: %[1]s/api/v1/write

To look at them in Grafana, add a data source of type Prometheus with the URL %[1]s

`
