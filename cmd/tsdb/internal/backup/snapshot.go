package backup

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"halite/api"
	"halite/cmd/tsdb/internal/datadir"
)

const (
	snapshotsName  = "snapshots"
	snapshotLayout = "20060102T150405Z"
)

// SnapshotOptions configure Snapshots.
type SnapshotOptions struct {
	// Dir is the data directory of the running server.
	Dir string
	// Log copies the log to logDir. It calls tables at the moment when log and tables belong together.
	Log func(ctx context.Context, logDir string, tables func(ctx context.Context) error) error
	// Tables copies the tables to a directory; nil if they are not on this machine.
	Tables func(ctx context.Context, dir string) error
	// Now is the clock; nil is time.Now.
	Now        func() time.Time
	Registerer prometheus.Registerer
}

// Snapshots makes snapshots of a data directory while its server runs. Take may be called concurrently.
type Snapshots struct {
	opts SnapshotOptions
	mu   sync.Mutex // held while a snapshot is made

	taken, failed prometheus.Counter
	seconds       prometheus.Gauge
}

// NewSnapshots registers the metrics tsdb_snapshot….
func NewSnapshots(opts SnapshotOptions) *Snapshots {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	f := promauto.With(opts.Registerer)
	return &Snapshots{
		opts:   opts,
		taken:  f.NewCounter(prometheus.CounterOpts{Name: "tsdb_snapshots_total", Help: "Snapshots taken."}),
		failed: f.NewCounter(prometheus.CounterOpts{Name: "tsdb_snapshot_failures_total", Help: "Snapshots that failed."}),
		seconds: f.NewGauge(prometheus.GaugeOpts{Name: "tsdb_snapshot_last_duration_seconds",
			Help: "Duration of the last snapshot taken."}),
	}
}

// Take makes a snapshot. It holds every sample acknowledged before the call. After an error no part of it remains.
func (s *Snapshots) Take(ctx context.Context) (api.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := s.opts.Now()
	snapshot, err := s.take(ctx, began)
	if err != nil {
		s.failed.Inc()
		return api.Snapshot{}, err
	}
	s.taken.Inc()
	s.seconds.Set(s.opts.Now().Sub(began).Seconds())
	return snapshot, nil
}

func (s *Snapshots) take(ctx context.Context, now time.Time) (snapshot api.Snapshot, err error) {
	root, err := filepath.Abs(filepath.Join(s.opts.Dir, snapshotsName))
	if err != nil {
		return snapshot, err
	}
	if err := removePartial(root, isSnapshot); err != nil {
		return snapshot, err
	}
	suffix := make([]byte, 8)
	if _, err := rand.Read(suffix); err != nil {
		return snapshot, err
	}
	name := now.UTC().Format(snapshotLayout) + "-" + hex.EncodeToString(suffix)
	final := filepath.Join(root, name)
	partial := final + partialSuffix
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
	}()
	if err := os.MkdirAll(partial, 0o700); err != nil {
		return snapshot, fmt.Errorf("make the directory of the snapshot: %w", err)
	}
	var tables func(context.Context) error
	if s.opts.Tables != nil {
		tables = func(ctx context.Context) error { return s.opts.Tables(ctx, datadir.TablesDir(partial)) }
	}
	if err := s.opts.Log(ctx, datadir.WALDir(partial), tables); err != nil {
		return snapshot, err
	}
	if err := context.Cause(ctx); err != nil {
		return snapshot, err // the client is gone, so nobody would remove the snapshot
	}
	if err := publish(partial, final); err != nil {
		return snapshot, err
	}
	return api.Snapshot{Name: name, Path: final, Tables: tables != nil}, nil
}

// isSnapshot reports whether a path is one that Take makes.
func isSnapshot(path string) bool {
	stamp, suffix, _ := strings.Cut(filepath.Base(path), "-")
	_, stampErr := time.Parse(snapshotLayout, stamp)
	raw, hexErr := hex.DecodeString(suffix)
	return filepath.IsAbs(path) && filepath.Base(filepath.Dir(path)) == snapshotsName && stampErr == nil && hexErr == nil &&
		len(raw) == 8
}

// RemoveSnapshot removes a snapshot that is no longer needed. It refuses other directories.
func RemoveSnapshot(path string) error {
	if !isSnapshot(path) {
		return fmt.Errorf("%s is not the directory of a snapshot", path)
	}
	return os.RemoveAll(path)
}
