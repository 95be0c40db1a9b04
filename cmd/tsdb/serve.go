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
	"time"

	"github.com/grafana/regexp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/term"

	"halite/api"
	"halite/api/doctor/facts"
	"halite/api/netlimit"
	tsdapi "halite/api/opentsdb"
	"halite/api/senders"
	"halite/cmd/tsdb/internal/datadir"
	"halite/cmd/tsdb/internal/opentsdb"
	"halite/cmd/tsdb/internal/tables"
	otsdbquery "halite/query/opentsdb"
	"halite/query/promadapter"
)

// runServer checks the flags and runs the server until ctx ends.
func runServer(ctx context.Context, c *serveConfig) error {
	if err := c.Validate(); err != nil {
		return err
	}
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
	s := &server{config: c, log: log, registry: c.metrics, gate: newGate(), quit: quit, failed: make(chan error, 4)}
	if s.registry == nil {
		s.registry = newRegistry()
	}
	c.replaying, c.waiting = s.gate.replaying, s.gate.wait
	c.senders = senders.New(senders.Options{SendersMax: c.sendersMax, Now: c.clock(), Logger: log})
	if err := s.listen(); err != nil {
		return err
	}
	go func() { s.failed <- serveHTTP(s.http, s.listener) }()
	c.locked = sync.OnceFunc(func() { logStart(c, log, s.listener.Addr()) })
	if s.port, err = c.opentsdb.Listen(c.web.insecure, log); err != nil {
		return errors.Join(err, s.http.Close())
	}
	defer s.port.StopListening()

	began := time.Now()
	if s.db, err = openWhenPossible(ctx, c, log, s.gate, s.registry); err != nil {
		return errors.Join(err, s.http.Close())
	}
	s.reloads = newReloader(c, s.db, s.registry)
	handler, err := s.openHandlers()
	if err != nil {
		return errors.Join(err, s.http.Close(), s.db.close(ctx))
	}
	if c.engine == tables.EnginePebble { // each scrape would send requests to Bigtable
		s.registry.MustRegister(tables.NewTabletCollector(s.db.store))
	}
	s.gate.open(handler.Handler())
	log.Info("ready", "after", time.Since(began).Round(time.Millisecond), "url", s.url())
	fmt.Fprintf(out, connectText, s.url())

	working, stopWork := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { s.reloads.reloadOn(working, hangups, log) })
	work.Go(func() { c.web.auth.Watch(working) })
	if c.web.selfScrape {
		work.Go(func() { s.selfScraper().run(working) })
	}
	s.watch(working, &work)
	select {
	case <-ctx.Done():
		log.Info("stopping: no new requests, finishing running ones")
	case err = <-s.failed:
	}
	s.gate.stop()
	stopWork()
	work.Wait()
	return errors.Join(err, s.drain())
}

// server holds the parts of a running server. serve sets them in this order.
type server struct {
	config   *serveConfig
	log      *slog.Logger
	registry metricRegistry
	gate     *gate
	quit     func()     // stops the server gracefully
	failed   chan error // receives errors that end the server
	listener net.Listener
	http     *http.Server
	port     *opentsdb.Port // nil without an address for OpenTSDB's clients
	db       *database
	reloads  *reloader
}

// url is the address under which clients reach the server.
func (s *server) url() string { return s.config.reachedAt(s.listener.Addr()) }

// openAPI makes the rule manager and the API of the open database.
func (s *server) openAPI() (*api.Server, error) {
	if err := s.db.openRuleManager(s.config, s.url(), s.registry, s.log); err != nil {
		return nil, err
	}
	return s.newAPI()
}

// watch runs the rules, the watch for failures of the store, and the background function of the configuration, concurrently
// with the API. The last two may end the server.
func (s *server) watch(working context.Context, work *sync.WaitGroup) {
	work.Go(func() { s.db.rules.Run(working) })
	if s.config.exitOnFailure {
		work.Go(func() {
			if err := s.db.watchFailure(working); err != nil {
				s.failed <- err
			}
		})
	}
	if s.config.background != nil {
		work.Go(func() {
			if err := s.config.background(working, s.db.ingester, s.url(), s.log); err != nil {
				s.failed <- err
			}
		})
	}
}

// listen opens the address of the API, with the limits of connections and the check of hosts in front of the gate.
func (s *server) listen() (err error) {
	c, log, registry := s.config, s.log, s.registry
	if err := c.fitDescriptors(datadir.DescriptorLimit(), log); err != nil {
		return err
	}
	connections := c.web.limits.Connections
	connections.Registerer, connections.Logger = registry, log
	c.web.limiter, err = netlimit.New(connections)
	if err != nil {
		return err
	}
	if err := c.web.checkURL(); err != nil {
		return err
	}
	if err := c.checkRuleFiles(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.web.listenAddress)
	if err != nil {
		return fmt.Errorf("--web.listen-address: %w", err)
	}
	if err := c.web.openAuth(listener.Addr(), registry, log); err != nil {
		return errors.Join(err, listener.Close())
	}
	check, err := c.web.hostCheck(listener.Addr(), registry)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	if c.web.profiles {
		s.gate.profile(c.web.auth)
	}
	check.Refused = func(r *http.Request, err error) {
		if protocol := api.WriteProtocol(r, c.web.routePrefix); protocol != "" {
			c.senders.Refuse(r, protocol, http.StatusForbidden, senders.ReasonHost, err)
		}
	}
	handler := c.web.auth.Headers(check.Handler(withRoutePrefix(c.web.routePrefix, s.gate)))
	c.web.hosts = check
	s.http = c.web.limiter.HTTPServer(handler)
	s.http.TLSConfig = c.web.auth.TLS()
	s.http.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug) // log of failed handshakes
	s.listener = c.web.limiter.Listener(listener)
	return nil
}

// servePort serves OpenTSDB's clients on their address, if there is one.
func (s *server) servePort() error {
	if s.port == nil {
		return nil
	}
	c := s.config
	names, err := c.opentsdb.Names(c.labelsMax)
	if err != nil {
		return err
	}
	hosts, err := c.web.hostsOf(s.port.Addr())
	if err != nil {
		return err
	}
	check, err := c.web.hosts.For(hosts)
	if err != nil {
		return fmt.Errorf("--web.allowed-hosts: %w", err)
	}
	build := readBuildInfo()
	return s.port.Serve(opentsdb.Options{
		Limiter: c.web.limiter, Main: s.gate, TLS: c.web.auth.TLS(), Writer: s.db.ingester, Tenants: s.db.listOfTenants(),
		Senders: c.senders, Names: names,
		Wrap:     func(next http.Handler) http.Handler { return c.web.auth.Headers(check.Handler(next)) },
		Gatherer: s.registry, Registerer: s.registry, Now: c.clock(), Logger: s.log,
		Version: (&tsdapi.Build{Version: build.version, Revision: build.revision, Date: build.date}).Text(),
	}, s.failed)
}

// openHandlers opens the handlers of all addresses and starts the rules.
func (s *server) openHandlers() (*api.Server, error) {
	handler, err := s.openAPI()
	if err != nil {
		return nil, err
	}
	if err := s.servePort(); err != nil {
		return nil, err
	}
	return handler, s.db.rules.Apply(s.config.ruleSettings)
}

// serveHTTP serves with TLS if the server has a TLS configuration.
func serveHTTP(server *http.Server, listener net.Listener) error {
	if server.TLSConfig == nil {
		return server.Serve(listener)
	}
	return server.ServeTLS(listener, "", "")
}

// drain finishes the running requests, then flushes and closes the store.
func (s *server) drain() error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), s.config.web.shutdownTimeout)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		s.log.Warn("cut off requests", "err", err)
		s.http.Close()
	}
	if err := s.port.Close(ctx); err != nil {
		s.log.Warn("cut off requests of OpenTSDB's clients", "err", err)
	}
	if err := s.db.closeWithin(s.config.web.shutdownTimeout); err != nil {
		return err
	}
	s.log.Info("stopped", "after", time.Since(began).Round(time.Millisecond))
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

// newAPI makes the API of the open database.
func (s *server) newAPI() (*api.Server, error) {
	c, db, reloads, registry := s.config, s.db, s.reloads, s.registry
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
	var quit func()
	if c.web.lifecycle {
		reload, quit = reloads.Reload, s.quit
	}
	queries, err := otsdbquery.New(otsdbquery.Options{Runner: db.engine, Names: db.lookup})
	if err != nil {
		return nil, err
	}
	judge, err := s.openDoctor()
	if err != nil {
		return nil, err
	}
	return api.New(api.Options{
		Writer: db.ingester, Engine: db.engine, Index: db.lookup, Queryable: promadapter.New(db.reader), Budgets: db.reader,
		Metadata: db.ingester,
		Stats:    db, Flusher: db, Deleter: db.deleter, Snapshot: db.snapshots(c, registry),
		Ready: s.gate.readiness, Refusing: db.refusing, Gatherer: registry, Registerer: registry, Logger: s.log,
		Build:   api.BuildInfo{Version: build.version, Revision: build.revision, BuildDate: build.date, GoVersion: runtime.Version()},
		Flags:   c.shownFlags(),
		Config:  reloads.Config,
		Runtime: func() api.RuntimeInfo { return runtimeInfo(c, reloads, started) },
		Reload:  reload, Quit: quit, Lookback: c.queryLookback, Rules: db.schema.Rules, OwnJob: ownJob,
		DelayedNames: c.queryDelayedNames, AllKinds: db.ingester.Histograms() != nil,
		ExternalURL: c.web.externalURL, RoutePrefix: c.web.routePrefix,
		AdminAPI: c.web.adminAPI, CORSOrigin: cors, Retention: db.sweeper.Costs,
		Doctor:     judge.Report,
		HotTablets: tables.HotTablets(db.tables),
		Tablets:    db.store, TabletEvents: db.tabletLog, Keyviz: db.keyviz, Tombstones: db.deleted.Len, Deletions: db.deletions,
		SeriesLimits: db.ingester.SeriesLimits, QueryLimits: db.limits,
		TopQueries: db.topQueries, LastReads: db.lastReads, MetricBytes: db.metricBytes,
		Senders: c.senders, Auth: c.web.auth,
		Tenancy: db.tenancy, Tenants: db.tenantAdmin(), TenantUses: db.tenantUses(), RuleManager: db.rules,
		GuardProbes: !c.web.openProbes, OpenTSDBNames: names, OpenTSDB: queries,
		OpenTSDBStats: opentsdb.Stats(registry, c.clock()), Notes: db.notes,
		Aliases:    db.aliases,
		HAClusters: db.ingester.HAClusters, Influx: reloads.influx, OTLP: reloads.otlp,
		Limits: c.requestLimits(),
	})
}

// requestLimits returns the limits of single requests.
func (c *serveConfig) requestLimits() api.Limits {
	l := c.web.limits.Requests
	l.WriteBytesMax, l.WriteInflightBytesMax, l.BadLinesMax = c.bodyBytesMax, c.inFlightBytesMax, c.badLinesMax
	l.RangePointsMax, l.LookupTimeout, l.SelectorsMax = c.queryPointsMax, c.queryTimeout, c.querySelectorsMax
	return l
}

// openDoctor opens the collector of facts about the server, and lets it sample counters each minute.
func (s *server) openDoctor() (*facts.Collector, error) {
	c, db := s.config, s.db
	opts := facts.Options{
		Gatherer: s.registry, SeriesLimits: db.ingester.SeriesLimits, Senders: c.senders, Keyviz: db.keyviz, RuleAt: db.schema.RuleAt,
		Sizes: db.index.Sizes, WideRows: db.wideRows.Widest, Now: c.clock(), Logger: s.log,
		Ready: func() (ready bool, reason string) {
			state, err := s.gate.readiness(), db.refusing()
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

func (s *server) selfScraper() *selfScraper {
	return &selfScraper{
		gatherer: s.registry, writer: s.db.ingester, every: s.config.web.selfScrapeEvery, instance: s.listener.Addr().String(),
		log: s.log,
	}
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
