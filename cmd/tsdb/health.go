package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halite/storage"
)

// healthInterval is the time between two checks of log and tables for a failure.
const healthInterval = time.Second

// refuser is a part of the database that may refuse writes, such as *ingest.Ingester and *pebble.Store.
type refuser interface {
	Refusing() error
}

// refusing returns the error with which the server refuses writes now, or nil. If there are several, it returns a permanent
// failure.
func (db *database) refusing() (err error) {
	for _, part := range []any{db.ingester, db.tables} {
		r, ok := part.(refuser)
		if !ok {
			continue
		}
		if partErr := r.Refusing(); err == nil || errors.Is(partErr, storage.ErrFailed) {
			err = partErr
		}
		if errors.Is(err, storage.ErrFailed) {
			return err
		}
	}
	return err
}

// watchFailure returns an error once log or tables have failed and only a restart can help. It returns nil when ctx ends.
func (db *database) watchFailure(ctx context.Context) error {
	ticker := time.NewTicker(healthInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := db.refusing(); errors.Is(err, storage.ErrFailed) {
			return fmt.Errorf("--storage.exit-on-failure: %w", err)
		}
	}
}

// closeWithin closes the database. If the disk is full or has failed, the last flush may never end. Then closeWithin gives up
// after the timeout, and the process ends. The log holds all acknowledged samples.
func (db *database) closeWithin(timeout time.Duration) error {
	closed := make(chan error, 1)
	go func() { closed <- db.close(context.Background()) }()
	deadline := time.After(timeout)
	ticker := time.NewTicker(healthInterval)
	defer ticker.Stop()
	var cause error
	for {
		select {
		case err := <-closed:
			return err
		case <-ticker.C:
			if err := db.refusing(); storage.Exhausted(err) || errors.Is(err, storage.ErrFailed) {
				cause = err
			}
			if cause == nil {
				continue
			}
			select {
			case <-deadline:
				return fmt.Errorf("the last flush did not end within %s; the log holds all acknowledged samples: %w", timeout, cause)
			default:
			}
		}
	}
}
