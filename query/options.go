package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql/parser"
	promstorage "github.com/prometheus/prometheus/storage"

	"halite/keyschema"
	"halite/query/limits"
	"halite/query/querylog"
	"halite/query/read/rollups"
	"halite/query/resultcache"
	"halite/query/topqueries"
	"halite/storage/principal"
)

// Switch is on, off or default.
type Switch uint8

const (
	// Default leaves the decision to the options of the Engine.
	Default Switch = iota
	// On and Off override the options.
	On
	Off
)

// Options configures an Engine. A zero field means the default that its comment names.
type Options struct {
	// Queryable answers selectors; required.
	Queryable promstorage.SampleAndChunkQueryable
	// Timeout ends a query, with its wait for a slot; 2 minutes. A request may ask for less.
	Timeout time.Duration
	// SamplesMax is the number of samples a query may hold in memory at once; 50,000,000.
	SamplesMax int
	// EngineSamplesMax replaces SamplesMax in Prometheus's engine. The engine needs 16 bytes per sample in addition to
	// the read samples; SamplesMax.
	EngineSamplesMax int
	// ConcurrencyMax is the number of queries evaluated at once; twice the number of CPUs, at least 4. More queries would compete
	// for the CPUs and hold their memory longer.
	ConcurrencyMax int
	// SharedConcurrencyMax is the number of queries of one tenant evaluated at once while other tenants are active; three quarters
	// of the CPUs, at least 1. Each of these queries uses one CPU. ConcurrencyMax or more has no effect.
	SharedConcurrencyMax int
	// CheapSamplesMax is the largest estimated number of samples of a cheap query; 10,000,000. Larger queries cannot use a
	// quarter of the slots. Another quarter prefers larger queries.
	CheapSamplesMax int64
	// QueueMax is the number of cheap queries, and of large queries, that may wait for a slot; 1000.
	QueueMax int
	// QueueWait is the longest wait of a query for a slot; 30 seconds.
	QueueWait time.Duration
	// PointsMax is the number of steps of a range query; 11,000.
	PointsMax int
	// SubqueryPointsMax is the number of subquery points that a function may read for one series over all steps;
	// 100,000,000. Each step of the outer expression reads range/step points. A function checks only between series whether
	// the query has ended.
	SubqueryPointsMax int64
	// SubqueryStepsMax is the number of steps of a subquery, over all steps of the expression around it; 1,000,000. Each
	// step costs memory even without series.
	SubqueryStepsMax int64
	// LabelGrowthMax is the largest factor by which label_replace and label_join may lengthen labels; 100.
	LabelGrowthMax int
	// QueryBytesMax is the length of an expression; 16 KiB.
	QueryBytesMax int
	// DepthMax is the largest depth of an expression; 2000. Each operator of a chain counts.
	DepthMax int
	// FormatDepthMax is the largest depth of an expression that Format prints; 300. The time of Prometheus's formatter grows
	// with the cube of the depth.
	FormatDepthMax int
	// Lookback is the time that an instant selector looks back for a sample; 5 minutes.
	Lookback time.Duration
	// SubqueryStep is the step of a subquery that names none; 1 minute. Engine.SetSubqueryStep changes it.
	SubqueryStep time.Duration
	// Columnar turns the columnar operators off; they are on by default. A request may decide otherwise.
	Columnar Switch
	// Tiers controls whether rollup states may replace samples; they are on by default if Rollups is set. A request may
	// decide otherwise.
	Tiers Switch
	// Rollups evaluates selectors with long windows from states of hours and days; nil without rollups.
	Rollups *rollups.Reader
	// Changes reports changed samples; without it no results are cached.
	Changes resultcache.Changes
	// ResultCacheBytes is the memory of the result cache; 64 MiB. Negative turns the cache off; less than 32 MiB counts as
	// 32 MiB.
	ResultCacheBytes int64
	// ResultCacheRecent is the least age of samples in cached steps; 0. The cache omits steps that read younger samples. Results
	// are exact even with 0, because each use of a cached result checks Changes.
	ResultCacheRecent time.Duration
	// Retention is the retention of samples; nil keeps them forever. Results near its end are not cached.
	Retention *keyschema.TierRetention
	// Experimental accepts the functions, range selectors and modifiers that Prometheus keeps behind feature flags.
	Experimental bool
	// DelayedNames drops metric names at the end of an evaluation, as Prometheus does with promql-delayed-name-removal.
	DelayedNames bool
	// StartTimes makes rate, irate, increase, resets and start_timestamp use start timestamps, as Prometheus does with
	// use-start-timestamps. The Queryable must read them.
	StartTimes bool

	// Limits bound queries by limits and rules that may change; nil bounds nothing.
	Limits *limits.Control

	// Log records running and slow queries; nil records none.
	Log *querylog.Log
	// Top counts the cost of queries; nil counts nothing.
	Top *topqueries.Tracker

	Now        func() time.Time      // time.Now
	Logger     *slog.Logger          // discards
	Registerer prometheus.Registerer // not registered
}

// Validate lists all faults.
func (o Options) Validate() error {
	var errs []error
	if o.Queryable == nil {
		errs = append(errs, errors.New("query: Queryable is required"))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"Timeout", o.Timeout}, {"QueueWait", o.QueueWait}, {"Lookback", o.Lookback}, {"SubqueryStep", o.SubqueryStep},
		{"ResultCacheRecent", o.ResultCacheRecent},
	} {
		if d.value < 0 || d.value%time.Millisecond != 0 {
			errs = append(errs, fmt.Errorf("query: %s is %s; it must be a positive number of milliseconds", d.name, d.value))
		}
	}
	for _, n := range []struct {
		name  string
		value int
	}{
		{"SamplesMax", o.SamplesMax}, {"EngineSamplesMax", o.EngineSamplesMax},
		{"ConcurrencyMax", o.ConcurrencyMax}, {"SharedConcurrencyMax", o.SharedConcurrencyMax},
		{"PointsMax", o.PointsMax}, {"QueueMax", o.QueueMax},
		{"QueryBytesMax", o.QueryBytesMax}, {"SubqueryPointsMax", int(o.SubqueryPointsMax)},
		{"SubqueryStepsMax", int(o.SubqueryStepsMax)}, {"DepthMax", o.DepthMax},
		{"FormatDepthMax", o.FormatDepthMax},
		{"LabelGrowthMax", o.LabelGrowthMax}, {"CheapSamplesMax", int(o.CheapSamplesMax)},
	} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("query: %s is %d; it must not be negative", n.name, n.value))
		}
	}
	return errors.Join(errs...)
}

// DefaultConcurrencyMax is the default of Options.ConcurrencyMax.
func DefaultConcurrencyMax() int { return max(4, 2*runtime.GOMAXPROCS(0)) }

func (o Options) withDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, 2*time.Minute)
	o.SamplesMax = cmp.Or(o.SamplesMax, 50_000_000)
	o.EngineSamplesMax = cmp.Or(o.EngineSamplesMax, o.SamplesMax)
	o.ConcurrencyMax = cmp.Or(o.ConcurrencyMax, DefaultConcurrencyMax())
	o.SharedConcurrencyMax = cmp.Or(o.SharedConcurrencyMax, max(1, runtime.GOMAXPROCS(0)*3/4))
	o.CheapSamplesMax = cmp.Or(o.CheapSamplesMax, 10_000_000)
	o.QueueMax = cmp.Or(o.QueueMax, 1000)
	o.QueueWait = cmp.Or(o.QueueWait, 30*time.Second)
	o.PointsMax = cmp.Or(o.PointsMax, 11_000)
	o.QueryBytesMax = cmp.Or(o.QueryBytesMax, 16<<10)
	o.DepthMax = cmp.Or(o.DepthMax, 2000)
	o.FormatDepthMax = cmp.Or(o.FormatDepthMax, 300)
	o.LabelGrowthMax = cmp.Or(o.LabelGrowthMax, 100)
	o.SubqueryPointsMax = cmp.Or(o.SubqueryPointsMax, 100_000_000)
	o.SubqueryStepsMax = cmp.Or(o.SubqueryStepsMax, 1_000_000)
	o.Lookback = cmp.Or(o.Lookback, 5*time.Minute)
	o.SubqueryStep = cmp.Or(o.SubqueryStep, time.Minute)
	o.ResultCacheBytes = cmp.Or(o.ResultCacheBytes, 64<<20)
	if o.Limits == nil {
		o.Limits = limits.New(nil)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// parserOptions match Prometheus 3 without feature flags, or with all PromQL feature flags if Experimental is set.
func (o Options) parserOptions() parser.Options {
	return parser.Options{
		ExperimentalDurationExpr:     true,
		EnableExperimentalFunctions:  o.Experimental,
		EnableExtendedRangeSelectors: o.Experimental,
		EnableBinopFillModifiers:     o.Experimental,
	}
}

// cacheOptions returns the options of the result cache.
func (o Options) cacheOptions() resultcache.Options {
	out := resultcache.Options{
		Changes: o.Changes, BytesMax: o.ResultCacheBytes, Recent: o.ResultCacheRecent, Retention: o.Retention,
		Margin: o.Timeout, Tiers: o.Tiers != Off, Now: o.Now, Registerer: o.Registerer,
	}
	if r := readerOf(o.Queryable); r != nil {
		out.Names = r.NamesGeneration
		out.Stored = func(who *principal.Principal, metric string) []string {
			return r.Stored(principal.With(context.Background(), who), metric)
		}
	}
	return out
}
