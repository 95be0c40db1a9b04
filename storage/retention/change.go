package retention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halite/keyschema"
	"halite/storage"
)

// errChanged ends a sweep whose retention has been replaced.
var errChanged = errors.New("the retention has changed")

// Change calls replace, which puts other ages into force by [keyschema.Retention.Replace]. Before that, it gives the tables
// policies that keep everything that the old or the new ages keep. So no engine drops samples that ingestion accepts. The
// next sweep gives the tables the policies of the current ages, and sweeps all days again. If replace fails, the old ages must
// still be in force.
func (s *Sweeper) Change(ctx context.Context, next *keyschema.RetentionByMetric, replace func() error) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	before := s.opts.Retention.Load().Longest()
	both := before
	for t, age := range next.Longest() {
		if age.Outlives(both[t]) {
			both[t] = age
		}
	}
	if both != before {
		s.policies = nil
		if err := s.ensurePolicies(ctx, both); err != nil {
			return err
		}
	}
	if err := s.resetProgress(ctx, next); err != nil {
		return err
	}
	if err := replace(); err != nil {
		return err
	}
	s.inForce = s.opts.Now()
	s.metrics.setAges(s.opts.Retention.Load())
	return nil
}

// resetProgress durably stores an empty progress for ages. An earlier sweep by the same ages does not count, because ingestion
// may have accepted older samples since then.
func (s *Sweeper) resetProgress(ctx context.Context, ages *keyschema.RetentionByMetric) error {
	meta, err := s.openMeta(ctx)
	if err != nil {
		return err
	}
	swept := newProgress(ages)
	if err := swept.save(ctx, meta); err != nil {
		return err
	}
	return s.opts.Store.Sync(ctx)
}

func (s *Sweeper) openMeta(ctx context.Context) (storage.Table, error) {
	meta, err := s.opts.Store.EnsureTable(ctx, storage.MetaSchema())
	if err != nil {
		return nil, fmt.Errorf("open table %s: %w", storage.TableMeta, err)
	}
	return meta, nil
}

// setPolicies gives the tables the policies of the current ages. It returns these ages.
func (s *Sweeper) setPolicies(ctx context.Context) (*keyschema.RetentionByMetric, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	ages := s.opts.Retention.Load()
	if s.policies != ages {
		if err := s.ensurePolicies(ctx, ages.Longest()); err != nil {
			return nil, err
		}
		s.policies = ages
	}
	return ages, nil
}

// ensurePolicies gives the existing tables the policies of some ages.
func (s *Sweeper) ensurePolicies(ctx context.Context, ages keyschema.RetentionByTier) error {
	age := func(t keyschema.Tier) time.Duration { return time.Duration(ages[t]) }
	for _, schema := range []storage.TableSchema{
		storage.DataSchema(age(keyschema.Raw)), storage.RollupSchema(age(keyschema.Hours), age(keyschema.Days)),
		storage.IndexSchema(storage.TableSeries, age(s.opts.SeriesTier)),
		storage.IndexSchema(storage.TableLabels, age(s.opts.SeriesTier)),
	} {
		if err := s.ensurePolicy(ctx, schema); err != nil {
			return fmt.Errorf("change the retention of table %s: %w", schema.Name, err)
		}
	}
	return nil
}

// ensurePolicy gives a table the policies of a schema, if the table exists.
func (s *Sweeper) ensurePolicy(ctx context.Context, schema storage.TableSchema) error {
	_, err := s.opts.Store.Table(ctx, schema.Name)
	if errors.Is(err, storage.ErrNoTable) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = s.opts.Store.EnsureTable(ctx, schema)
	return err
}
