package ingest

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"halite/ingest/deletion"
	"halite/ingest/head"
	"halite/ingest/ratelimit"
	"halite/keyschema"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/index/memory"
	"halite/storage/keyviz"
	"halite/storage/tombstone"
)

// Options configure an Ingester.
type Options struct {
	// Dir is the directory of the write-ahead log. Required.
	Dir string
	// FS is the file system of Dir; nil means the disk.
	FS vfs.FS
	// Store holds the data and meta tables. Required; the caller closes it after the ingester.
	Store storage.Store
	// Index is the series index. Required.
	Index *index.Index
	// Schema is the schema of Index. Required.
	Schema *keyschema.Schema
	// Tombstones are the deletions in force; nil means that deletions are not supported. Store hides the samples that they
	// delete.
	Tombstones *tombstone.Set
	// Deleting, if set, is called for each deletion with its first and last millisecond. It must call change, which hides
	// the samples from readers. Caches use it to drop deleted samples.
	Deleting func(fromMs, toMs int64, change func() error) error
	// States are the rollup states; nil if there are none.
	States deletion.States
	// Retention is the age above which samples and native histograms are refused; nil accepts every timestamp from 1970 on.
	Retention *keyschema.TierRetention
	// Limits bound what a request may ask for.
	Limits Limits
	// Head tunes the in-memory rows and their flush.
	Head HeadOptions
	// WALSegmentBytesMax is the size of a log segment; 0 means the log's default.
	WALSegmentBytesMax int64
	// WALBytesMax is the size of the log above which the server flushes rows early, so that it can truncate the log. At 125 %
	// of it the server refuses writes. 0 means 4 GiB, about an hour at 100,000 samples a second. Replay of 4 GiB takes two
	// minutes.
	WALBytesMax int64
	// WALCommitDelay is the time that a commit waits for other commits to share its sync; 0 means the log's default.
	WALCommitDelay time.Duration
	// WALBufferBytesMax bounds the bytes that wait for the log's disk. Writes beyond it are refused. 0 means the log's default.
	WALBufferBytesMax int
	// AcceptWALLoss opens a damaged log without its unreadable records. It also opens tables whose log is missing, is older than
	// the tables, or belongs to other tables.
	AcceptWALLoss bool
	// Replaying, if set, is called with the progress about twice a second while Open replays the log, and at the end.
	Replaying func(ReplayProgress)
	// AcceptTableLoss opens a log whose tables are missing or older than the log.
	AcceptTableLoss bool
	// TakeOver makes the tables belong to this log, whichever log they belonged to before.
	TakeOver bool
	// FreeBytesMin is the free space of the log's file system below which writes are refused. 0 means 1 GiB, and a negative
	// value turns the check off.
	FreeBytesMin int64
	// Reserve, if set, is called once a second. It reserves disk space for the next start. Writes are refused while it fails.
	Reserve func() error
	// Heat counts accepted samples by row key; nil turns the count off.
	Heat *keyviz.Collector
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger logs for operators; nil discards all lines.
	Logger *slog.Logger
	// Registerer registers the metrics; nil means no registration.
	Registerer prometheus.Registerer
}

// Limits bound requests. Zero fields mean the default.
type Limits struct {
	// Tenants is set if the server has tenants. The ingester then refuses metric names that begin with '&' and the label
	// keyschema.TenantLabel. Without tenants it refuses only the stored names of tenants' metrics.
	Tenants bool
	// LabelsPerSeriesMax counts the labels with __name__; default LabelsPerSeriesMaxDefault.
	LabelsPerSeriesMax int
	// LabelNameBytesMax bounds the name of a label; default and upper bound memory.LabelNameBytesMax (1 KiB).
	LabelNameBytesMax int
	// LabelValueBytesMax bounds the value of a label; default LabelValueBytesMaxDefault, upper bound memory.LabelValueBytesMax.
	LabelValueBytesMax int
	// MetricNameBytesMax bounds the value of __name__; default and upper bound keyschema.MetricBytesMax (1 KiB).
	MetricNameBytesMax int
	// LabelSetBytesMax bounds all names and values of a series together; default LabelSetBytesMaxDefault, upper bound
	// LabelSetBytesUpperBound.
	LabelSetBytesMax int
	// BodyBytesMax and DecodedBytesMax bound a request before and after decompression; default 32 MiB each.
	BodyBytesMax, DecodedBytesMax int
	// RequestSamplesMax bounds the series and the samples of one request; default 1,000,000.
	RequestSamplesMax int
	// RequestSymbolsMax bounds the symbols of one request of remote write 2.0; default 1,000,000.
	RequestSymbolsMax int
	// HistogramBytesMax bounds the encoding of one native histogram in the log; default 64 KiB, at most 1 MiB.
	HistogramBytesMax int
	// DecodedHistogramBytesMax bounds the memory of the decoded histograms of one series in a request; default eight times
	// DecodedBytesMax. InFlightBytesMax bounds it as well.
	DecodedHistogramBytesMax int
	// AheadMax is how far a timestamp may lie in the future; default AheadMaxDefault.
	AheadMax time.Duration
	// SeriesMax bounds the active series; 0 means no limit. New series beyond it are refused; samples of known series are not.
	SeriesMax int
	// SeriesWarn is the number of active series at which the ingester warns; a value up to 1 is a share of SeriesMax. The
	// default is keyschema.SeriesWarnDefault. A share applies to HeadOptions.TotalBytesMax as well.
	SeriesWarn float64
	// SeriesDryRun counts and logs the series beyond SeriesMax, but accepts them.
	SeriesDryRun bool
	// InFlightBytesMax bounds the decoded bytes of all requests in progress, and of their decoded histograms; default 256
	// MiB.
	InFlightBytesMax int64
	// ConcurrencyMax bounds the requests that are decoded and stored at once; default four for each CPU.
	ConcurrencyMax int
	// SharedConcurrencyMax bounds the requests of one tenant that are decoded and stored at once while other tenants are
	// active. The default is three quarters of the CPUs, at least 1.
	SharedConcurrencyMax int
	// SharedLogBytesMax bounds the decoded bytes of one tenant's requests that are not durable while other tenants are active;
	// default SharedLogBytesMaxDefault. A larger request waits until the tenant's others are durable.
	SharedLogBytesMax int64
	// QueueWaitMax is the longest time that a request waits for a slot before it is refused; default 5 s.
	QueueWaitMax time.Duration
	// MetadataBytesMax bounds type, help and unit of one metric together; default 4096.
	MetadataBytesMax int
	// MetadataMetricsMax bounds the metrics with metadata; default 100,000.
	MetadataMetricsMax int
	// RelabelledSeriesMax bounds the relabelling cache. It is the number of label sets as sent, beyond three for each stored
	// series; default 1,000,000. Other label sets are relabelled with each sample.
	RelabelledSeriesMax int
}

// HeadOptions tune the in-memory rows and their flush. Zero fields mean the default.
type HeadOptions struct {
	// Stripes is the number of independently locked parts, a power of two; default 16.
	Stripes int
	// BytesMax is the memory of unflushed samples above which rows are flushed early; default 1 GiB. At 125 % of it writes
	// are refused.
	BytesMax int64
	// TotalBytesMax is the memory of unflushed samples and active series: labels, registry, and open days of the index. Rows are
	// flushed early when it is used up. New series are refused when series alone use three quarters of it. All writes are refused
	// when series use all of it. 0 means no limit.
	TotalBytesMax int64
	// RowBytesMax is the packed size above which a row is flushed early; default 256 KiB.
	RowBytesMax int
	// FlushBytes is the memory of the rows that a flush writes in one batch; default 4 MiB. A larger flush writes the table
	// partition by partition, in key order.
	FlushBytes int64
	// FlushInterval is the time between two runs of the flush job; default 15 s. Negative turns all background jobs off: then
	// only Flush and Close flush.
	FlushInterval time.Duration
	// ExemplarsMax is the number of exemplars kept for a series and hour, at most head.ExemplarsUpperBound; default 60. The head
	// keeps the newest ones.
	ExemplarsMax int
	// Grace is the time after the end of an hour for which its rows wait for late samples; default 1 minute.
	Grace time.Duration
	// Spread is the time over which the rows of one hour are flushed, partition by partition; default 5 minutes.
	Spread time.Duration
	// CheckpointInterval is the minimum time between two truncations of the log; default 5 minutes.
	CheckpointInterval time.Duration
	// MaintainInterval is the time between two maintenance runs; default 1 h. A run compacts the index and removes idle series
	// from memory. Once a day it also collects the garbage of the engine.
	MaintainInterval time.Duration
	// IdleAfter is the time without samples after which a series leaves memory; default 48 h.
	IdleAfter time.Duration
}

// HistogramBytesUpperBound is the largest Limits.HistogramBytesMax. A log record can hold such a histogram.
const HistogramBytesUpperBound = 1 << 20

// SharedLogBytesMaxDefault is the default of Limits.SharedLogBytesMax. A sync of this size takes little longer than a small one.
const SharedLogBytesMaxDefault = 128 << 10

// AheadMaxDefault is the default of Limits.AheadMax.
const AheadMaxDefault = 10 * time.Minute

// Defaults of the label limits. Prometheus has no such limits. So the defaults accept the labels of real fleets, such as
// annotations of Kubernetes objects.
const (
	LabelsPerSeriesMaxDefault = 512
	LabelValueBytesMaxDefault = 64 << 10
	LabelSetBytesMaxDefault   = 256 << 10
	// LabelSetBytesUpperBound is the upper bound of Limits.LabelSetBytesMax. A record of the log and a cell of the index hold whole
	// label sets.
	LabelSetBytesUpperBound = 1 << 20
)

func (l Limits) withDefaults(cpus int) Limits {
	l.LabelsPerSeriesMax = cmp.Or(l.LabelsPerSeriesMax, LabelsPerSeriesMaxDefault)
	l.LabelNameBytesMax = cmp.Or(l.LabelNameBytesMax, memory.LabelNameBytesMax)
	l.LabelValueBytesMax = cmp.Or(l.LabelValueBytesMax, LabelValueBytesMaxDefault)
	l.MetricNameBytesMax = cmp.Or(l.MetricNameBytesMax, keyschema.MetricBytesMax)
	l.LabelSetBytesMax = cmp.Or(l.LabelSetBytesMax, LabelSetBytesMaxDefault)
	l.BodyBytesMax = cmp.Or(l.BodyBytesMax, 32<<20)
	l.DecodedBytesMax = cmp.Or(l.DecodedBytesMax, 32<<20)
	l.RequestSamplesMax = cmp.Or(l.RequestSamplesMax, 1_000_000)
	l.RequestSymbolsMax = cmp.Or(l.RequestSymbolsMax, 1_000_000)
	l.HistogramBytesMax = cmp.Or(l.HistogramBytesMax, 64<<10)
	l.DecodedHistogramBytesMax = cmp.Or(l.DecodedHistogramBytesMax, 8*l.DecodedBytesMax)
	l.AheadMax = cmp.Or(l.AheadMax, AheadMaxDefault)
	l.InFlightBytesMax = cmp.Or(l.InFlightBytesMax, 256<<20)
	l.ConcurrencyMax = cmp.Or(l.ConcurrencyMax, 4*cpus)
	l.SharedConcurrencyMax = cmp.Or(l.SharedConcurrencyMax, max(1, cpus*3/4))
	l.SharedLogBytesMax = cmp.Or(l.SharedLogBytesMax, SharedLogBytesMaxDefault)
	l.QueueWaitMax = cmp.Or(l.QueueWaitMax, 5*time.Second)
	l.MetadataBytesMax = cmp.Or(l.MetadataBytesMax, 4096)
	l.MetadataMetricsMax = cmp.Or(l.MetadataMetricsMax, 100_000)
	l.RelabelledSeriesMax = cmp.Or(l.RelabelledSeriesMax, 1_000_000)
	return l
}

// histogramsBytesMax returns DecodedHistogramBytesMax for a request of a decoded size. A request above InFlightBytesMax can
// never be admitted. It counts as too large, because a retry would not help.
func (l *Limits) histogramsBytesMax(sizeBytes int) int {
	return int(min(int64(l.DecodedHistogramBytesMax), l.InFlightBytesMax-int64(sizeBytes)))
}

func (o Options) withDefaults() Options {
	o.Head = o.Head.withDefaults()
	o.FreeBytesMin = cmp.Or(o.FreeBytesMin, 1<<30)
	o.WALBytesMax = cmp.Or(o.WALBytesMax, 4<<30)
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (h HeadOptions) withDefaults() HeadOptions {
	h.Stripes = cmp.Or(h.Stripes, 16)
	h.BytesMax = cmp.Or(h.BytesMax, 1<<30)
	h.RowBytesMax = cmp.Or(h.RowBytesMax, 256<<10)
	h.ExemplarsMax = cmp.Or(h.ExemplarsMax, head.ExemplarsDefault)
	h.FlushBytes = cmp.Or(h.FlushBytes, 4<<20)
	h.FlushInterval = cmp.Or(h.FlushInterval, 15*time.Second)
	h.Grace = cmp.Or(h.Grace, time.Minute)
	h.Spread = cmp.Or(h.Spread, 5*time.Minute)
	h.CheckpointInterval = cmp.Or(h.CheckpointInterval, 5*time.Minute)
	h.MaintainInterval = cmp.Or(h.MaintainInterval, time.Hour)
	h.IdleAfter = cmp.Or(h.IdleAfter, 48*time.Hour)
	return h
}

// Validate lists all faults of the options.
func (o Options) Validate() error {
	var errs []error
	check := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(o.Dir == "", "Dir is required")
	check(o.Store == nil, "Store is required")
	check(o.Index == nil, "Index is required")
	check(o.Schema == nil, "Schema is required")
	s := o.Head.Stripes
	check(s < 0 || s&(s-1) != 0 || s > 1<<10, "Head.Stripes %d is not a power of two up to 1024", s)
	check(o.WALBytesMax < 0, "WALBytesMax %d is negative", o.WALBytesMax)
	check(o.Head.FlushBytes < 0, "Head.FlushBytes %d is negative", o.Head.FlushBytes)
	check(o.Head.BytesMax < 0, "Head.BytesMax %d is negative", o.Head.BytesMax)
	check(o.Head.TotalBytesMax < 0, "Head.TotalBytesMax %d is negative", o.Head.TotalBytesMax)
	row := o.Head.RowBytesMax
	check(row < 0 || row > head.RowBytesUpperBound, "Head.RowBytesMax %d is not in 0…%d", row, head.RowBytesUpperBound)
	exemplars := o.Head.ExemplarsMax
	check(exemplars < 0 || exemplars > head.ExemplarsUpperBound, "Head.ExemplarsMax %d is not in 0…%d", exemplars,
		head.ExemplarsUpperBound)
	check(o.Head.Grace < 0 || o.Head.Spread < 0, "Head.Grace or Head.Spread is negative")
	if err := o.Limits.Validate(); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return fmt.Errorf("ingest options: %w", errors.Join(errs...))
	}
	return nil
}

// Validate lists the limits that are out of range.
func (l Limits) Validate() error {
	var errs []error
	check := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(l.HistogramBytesMax > HistogramBytesUpperBound, "Limits.HistogramBytesMax %d is above %d", l.HistogramBytesMax,
		HistogramBytesUpperBound)
	for _, f := range []struct {
		name        string
		value, most int
	}{
		{"MetricNameBytesMax", l.MetricNameBytesMax, keyschema.MetricBytesMax},
		{"LabelNameBytesMax", l.LabelNameBytesMax, memory.LabelNameBytesMax},
		{"LabelValueBytesMax", l.LabelValueBytesMax, memory.LabelValueBytesMax},
		{"LabelSetBytesMax", l.LabelSetBytesMax, LabelSetBytesUpperBound},
	} {
		check(f.value < 0 || f.value > f.most, "Limits.%s %d is not in 0…%d", f.name, f.value, f.most)
	}
	check(!(l.SeriesWarn >= 0), "Limits.SeriesWarn %g is negative", l.SeriesWarn)
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"LabelsPerSeriesMax", int64(l.LabelsPerSeriesMax)}, {"BodyBytesMax", int64(l.BodyBytesMax)},
		{"DecodedBytesMax", int64(l.DecodedBytesMax)}, {"RequestSamplesMax", int64(l.RequestSamplesMax)},
		{"RequestSymbolsMax", int64(l.RequestSymbolsMax)}, {"DecodedHistogramBytesMax", int64(l.DecodedHistogramBytesMax)},
		{"HistogramBytesMax", int64(l.HistogramBytesMax)}, {"AheadMax", int64(l.AheadMax)}, {"SeriesMax", int64(l.SeriesMax)},
		{"InFlightBytesMax", l.InFlightBytesMax}, {"ConcurrencyMax", int64(l.ConcurrencyMax)},
		{"SharedConcurrencyMax", int64(l.SharedConcurrencyMax)}, {"SharedLogBytesMax", l.SharedLogBytesMax},
		{"QueueWaitMax", int64(l.QueueWaitMax)}, {"MetadataBytesMax", int64(l.MetadataBytesMax)},
		{"MetadataMetricsMax", int64(l.MetadataMetricsMax)}, {"RelabelledSeriesMax", int64(l.RelabelledSeriesMax)},
	} {
		check(f.value < 0, "Limits.%s %d is negative", f.name, f.value)
	}
	return errors.Join(errs...)
}

// ReplayProgress is the progress of Open in replaying the write-ahead log.
type ReplayProgress struct {
	// Bytes is the number of bytes read so far, TotalBytes the size of the log.
	Bytes, TotalBytes int64
	// Series and Samples count the series and samples applied so far.
	Series, Samples int64
}

// Percent is the share of the log read so far, in percent.
func (p ReplayProgress) Percent() int64 { return p.Bytes * 100 / max(1, p.TotalBytes) }

// Limit is a limit that may change while the ingester runs.
type Limit struct {
	// Max is the limit; 0 means no limit.
	Max int64
	// Warn is the number at which the ingester warns; a value up to 1 is a share of Max. 0 means
	// keyschema.SeriesWarnDefault.
	Warn float64
	// DryRun accepts everything beyond Max and counts it.
	DryRun bool
}

func (l *Limit) warnAt() int64 { return int64(keyschema.SeriesWarn(int(l.Max), l.Warn)) }

// options returns the limit in the form of package ratelimit.
func (l *Limit) options() ratelimit.Options {
	return ratelimit.Options{Max: l.Max, Warn: l.warnAt(), DryRun: l.DryRun}
}

// LimitUse is a limit and its usage. Max 0 means that there is no limit.
type LimitUse struct {
	Used   int64 `json:"used"`
	Warn   int64 `json:"warn"`
	Max    int64 `json:"max"`
	DryRun bool  `json:"dryRun"`
}

func (u *LimitUse) warns() bool { return u.Max > 0 && u.Used >= u.Warn }
