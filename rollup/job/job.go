package job

import (
	"context"
	"sync"
	"time"

	"halite/keyschema"
	"halite/rollup/store"
	"halite/storage"
	"halite/storage/periodic"
)

const dayMs = keyschema.DayMs

// Job computes rollup states. See the package comment.
type Job struct {
	opts    Options
	store   *store.Store
	shared  *store.Shared // nil if there is one process
	metrics *metrics

	pass           sync.Mutex // held by the current pass
	durableHorizon uint64     // the last deletion that is durable in the tables; guarded by pass
	stop           context.CancelFunc
	runs           sync.WaitGroup
	// sleep is periodic.Sleep; tests replace it.
	sleep func(ctx context.Context, d time.Duration) error
	tick  func() time.Time // measures durations, not times of samples
}

// New makes the job of a store. Start runs it in the background.
func New(s *store.Store, opts Options) (*Job, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	j := &Job{opts: opts.withDefaults(), store: s, shared: s.Options().Shared, sleep: periodic.Sleep, tick: time.Now}
	if j.opts.Logger == nil {
		j.opts.Logger = s.Options().Logger
	}
	if j.shared != nil && j.shared.Tick != nil {
		j.tick = j.shared.Tick
	}
	var err error
	if j.metrics, err = newMetrics(j.opts.Registerer); err != nil {
		return nil, err
	}
	return j, nil
}

func (j *Job) now() time.Time { return j.store.Options().Now() }

// allRows is the range of all rows.
func allRows() storage.RowSet { return storage.RowSet{Ranges: []storage.RowRange{{}}} }
