package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"halite/cmd/tsdb/internal/tables"
	"halite/keyschema"
	"halite/query/querylog"
	"halite/storage"
)

const (
	// reloadWait bounds the storing of new rules.
	reloadWait = 30 * time.Second
	// reloadMargin is kept between the last hour that may have samples and the first one of new rules. It is longer than
	// reloadWait: until the rules are in force, no sample of their hours is accepted.
	reloadMargin = time.Minute
)

// errNoRulesFile: the server was started without any file that a reload reads.
var errNoRulesFile = errors.New("neither --storage.schema-rules nor --query.log-file was given, there is nothing to reload")

// rulesReloader puts the rules of the file into force while the server runs.
type rulesReloader struct {
	schema *keyschema.Schema
	store  storage.Store
	file   string
	// retention is what the server was started with, ages the part of it that comes from flags.
	retention *keyschema.RetentionByMetric
	ages      keyschema.RetentionByTier
	queryLog  *querylog.Log
	ahead     time.Duration // how far samples may lie in the future
	now       func() time.Time
	// stray names metrics that have samples from a time on.
	stray func(ctx context.Context, fromMs int64) ([]string, error)

	mu     sync.Mutex // held by a reload
	state  sync.Mutex // guards what follows
	loaded bool       // the last one went well
	at     time.Time  // of the last one that did
}

// newRulesReloader begins with the rules that were loaded at the start.
func newRulesReloader(c *serveConfig, db *database, r prometheus.Registerer) *rulesReloader {
	x := &rulesReloader{schema: db.schema, store: db.store, file: c.schemaRulesFile, ahead: c.aheadOrDefault(), now: c.clock(),
		retention: db.retention, ages: c.ages(), queryLog: db.queryLog, loaded: true}
	x.at = x.now()
	x.stray = func(ctx context.Context, fromMs int64) ([]string, error) {
		return db.index.LabelValues(ctx, "__name__", fromMs, keyschema.TimeMaxMs, 1)
	}
	gauge := func(name, help string, value func() float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	gauge("tsdb_config_last_reload_successful", "Whether the last reload of the schema rules went well.", func() float64 {
		if ok, _ := x.last(); !ok {
			return 0
		}
		return 1
	})
	gauge("tsdb_config_last_reload_success_timestamp_seconds", "When the schema rules were last taken.", func() float64 {
		_, at := x.last()
		return float64(at.UnixMilli()) / 1e3
	})
	return x
}

func (x *rulesReloader) last() (ok bool, at time.Time) {
	x.state.Lock()
	defer x.state.Unlock()
	return x.loaded, x.at
}

// Reload opens the query log again and puts the rules of the file into force. If the rules are refused, the former ones
// stay and the error says why. A new rule must begin in an hour that cannot have samples yet.
func (x *rulesReloader) Reload(ctx context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	reopened := x.queryLog.Reopen()
	err := x.reload(ctx)
	x.state.Lock()
	defer x.state.Unlock()
	if x.loaded = err == nil; x.loaded {
		x.at = x.now()
	}
	return errors.Join(err, reopened)
}

func (x *rulesReloader) reload(ctx context.Context) error {
	if x.file == "" && x.queryLog.Logs() {
		return nil
	}
	if x.file == "" {
		return errNoRulesFile
	}
	wanted, err := tables.ReadRulesFile(x.file)
	if err != nil {
		return err
	}
	next, err := keyschema.NewSchema(wanted)
	if err != nil {
		return fmt.Errorf("%s: %w", x.file, err)
	}
	if retention, err := next.Retention(x.ages); err != nil {
		return fmt.Errorf("%s: %w", x.file, err)
	} else if !sameRetention(retention, x.retention) {
		return fmt.Errorf("%s: how long metrics are kept is changed by a restart only", x.file)
	}
	nowHour := keyschema.HourOf(x.now().Add(x.ahead + reloadMargin).UnixMilli())
	if err := x.schema.CheckChange(next, nowHour); err != nil {
		return fmt.Errorf("%s: %w", x.file, err)
	}
	ctx, cancel := context.WithTimeout(ctx, reloadWait)
	defer cancel()
	if early, err := x.stray(ctx, keyschema.HourStartMs(nowHour+1)); err != nil {
		return fmt.Errorf("look for samples of coming hours: %w", err)
	} else if len(early) > 0 {
		return fmt.Errorf("%s: metric %q has samples after hour %d already, from a time when more was accepted ahead; reload when "+
			"that has passed", x.file, early[0], nowHour)
	}
	meta, err := x.store.Table(ctx, storage.TableMeta)
	if err != nil {
		return err
	}
	// Stored first: rows keyed by rules that a restart does not know could not be found again.
	if err := tables.WriteRules(ctx, meta, wanted); err != nil {
		return fmt.Errorf("store the rules, which stay as they were: %w", err)
	}
	if err := x.schema.Replace(next, nowHour); err != nil {
		return fmt.Errorf("%s: %w", x.file, err)
	}
	// Until this succeeds no flush does, and the log brings all rows of the new rules back.
	if err := x.store.Sync(ctx); err != nil {
		return fmt.Errorf("the rules of %s are in force, but not durable yet; reload again: %w", x.file, err)
	}
	return nil
}

// catchHangups takes SIGHUP, which would end the process, from now on.
func catchHangups() (hangups chan os.Signal) {
	hangups = make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	return hangups
}

// reloadOn reloads at each SIGHUP until ctx ends.
func (x *rulesReloader) reloadOn(ctx context.Context, hangups <-chan os.Signal, log *slog.Logger) {
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
		log.Info("reloaded", "schema_rules", x.file, "query_log", x.queryLog.Logs())
	}
}
