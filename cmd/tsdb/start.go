package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"halite/storage"
)

const (
	// openRetry is the time between two attempts to open the database while disk space or descriptors are short.
	openRetry = time.Second
	// openGrace is the time that an interrupted start has to end. A start may be interrupted anywhere.
	openGrace = 5 * time.Second
	// openLogInterval is the minimum time between two log lines about a start that lacks disk space or descriptors.
	openLogInterval = time.Minute
)

// openWhenPossible opens the database. It retries while the machine lacks disk space, descriptors or memory; the gate answers 503
// meanwhile. It unregisters the metrics of a failed attempt.
func openWhenPossible(
	ctx context.Context, c *serveConfig, log *slog.Logger, gate *gate, r prometheus.Registerer,
) (*database, error) {
	var logged time.Time
	for {
		gate.wait(nil)
		metrics := &undoable{to: r}
		db, err := openUntil(ctx, c, log, metrics)
		if err == nil || !storage.Exhausted(err) || ctx.Err() != nil {
			return db, err
		}
		metrics.undo()
		gate.wait(err)
		if time.Since(logged) >= openLogInterval {
			logged = time.Now()
			log.Error("the server cannot start for lack of disk space, descriptors or memory; it retries", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(openRetry):
		}
	}
}

// openUntil opens the database and gives up when ctx ends, even if the disk does not respond.
func openUntil(ctx context.Context, c *serveConfig, log *slog.Logger, r prometheus.Registerer) (*database, error) {
	type result struct {
		db  *database
		err error
	}
	opened := make(chan result, 1)
	go func() {
		db, err := openDatabase(ctx, c, log, r)
		opened <- result{db, err}
	}()
	select {
	case res := <-opened:
		return res.db, res.err
	case <-ctx.Done():
	}
	select {
	case res := <-opened:
		return res.db, res.err
	case <-time.After(openGrace):
		return nil, fmt.Errorf("the start did not end within %s after the signal: the disk is full or does not respond: %w", openGrace,
			context.Cause(ctx))
	}
}

// undoable registers metrics so that all of them can be unregistered together.
type undoable struct {
	to   prometheus.Registerer
	mu   sync.Mutex
	made []prometheus.Collector
}

// Register is part of prometheus.Registerer.
func (u *undoable) Register(c prometheus.Collector) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	err := u.to.Register(c)
	if err == nil {
		u.made = append(u.made, c)
	}
	return err
}

// MustRegister is part of prometheus.Registerer.
func (u *undoable) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := u.Register(c); err != nil {
			panic(err)
		}
	}
}

// Unregister is part of prometheus.Registerer.
func (u *undoable) Unregister(c prometheus.Collector) bool { return u.to.Unregister(c) }

func (u *undoable) undo() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.made {
		u.to.Unregister(c)
	}
}
