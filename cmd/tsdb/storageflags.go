package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"

	"halite/cmd/tsdb/internal/tables"
	rollupstore "halite/rollup/store"
)

// sharedBytes is a flag for memory that must leave room for other things: unless the user sets it, it is at most a part of
// the memory limit.
type sharedBytes struct {
	sizeBytes *int64
	part      int64 // 8 for an eighth
	offHeap   bool  // not counted by the Go runtime
	byUser    bool
}

// addShared declares such a flag.
func (c *serveConfig) addShared(flag *kingpin.FlagClause, s sharedBytes) {
	shared := &s
	flag.IsSetByUser(&shared.byUser).BytesVar(asBytes(s.sizeBytes))
	c.shared = append(c.shared, shared)
}

func (c *serveConfig) addStorageFlags(cmd *kingpin.CmdClause) {
	cmd.Flag("storage.engine", "Where tables are kept: pebble, in --storage.path, or bigtable, in Google Cloud Bigtable; the "+
		"log is local but for --bigtable.mode=direct.").
		Default(tables.EnginePebble).EnumVar(&c.engine, tables.EnginePebble, tables.EngineBigtable)
	c.bigtable.AddFlags(cmd)
	cmd.Flag("bigtable.take-over", "Become the owner of tables that belong to another server's directory. That server must have "+
		"stopped for good.").BoolVar(&c.takeOver)
	c.directMode.addFlags(cmd)
	cmd.Flag("storage.path", "Directory of all data; made if missing.").Default("./data").StringVar(&c.storagePath)
	c.retentionRaw = model.Duration(30 * 24 * time.Hour)
	cmd.Flag("storage.retention.raw", "How long raw samples are kept; 0 keeps them for ever and accepts any time since 1970.").
		Default("30d").SetValue(&c.retentionRaw)
	c.rollups.addFlags(cmd)
	cmd.Flag("storage.schema-rules", "JSON file with the schema rules (salts, promoted tags); see docs/schema.md.").
		StringVar(&c.schemaRulesFile)
	c.addShared(cmd.Flag("storage.cache-bytes", "Memory for cached table blocks; by default at most an eighth of the memory limit.").
		Default("256MB"), sharedBytes{sizeBytes: &c.cacheBytes, part: 8, offHeap: true})
	c.addShared(cmd.Flag("storage.memtable-bytes", "Size of one memtable; by default at most a thirty-second of the memory limit.").
		Default("64MB"), sharedBytes{sizeBytes: &c.memtableBytes, part: 32, offHeap: true})
	cmd.Flag("storage.tablet-bytes", "Size above which a range of row keys is counted as several tablets; they are for "+
		"/api/v1/status/tablets and metrics, no data is moved.").Default("1GB").BytesVar(asBytes(&c.tabletBytes))
	cmd.Flag("storage.tablet-rows", "Rows written and read between two checks above which a tablet is divided.").
		Default("67108864").Int64Var(&c.tabletRows)
	cmd.Flag("storage.catalogue-bytes", "Memory for the catalogue of closed days.").Default("64MB").
		BytesVar(asBytes(&c.catalogueBytes))
	cmd.Flag("storage.tombstones-max", "Most deletions that may wait for their rows to be cleaned.").Default("10000").
		IntVar(&c.tombstonesMax)
	c.addShared(cmd.Flag("storage.head-bytes", "Memory of unflushed samples above which rows are flushed early; by default at "+
		"most half of the memory limit.").Default("1GB"), sharedBytes{sizeBytes: &c.headBytesMax, part: 2})
	cmd.Flag("storage.head-total-bytes", "Memory of unflushed samples and of all that grows with active series: their labels, the "+
		"registry, and the open days of the catalogue. Rows are flushed early when it is used up; new series are refused with 400 "+
		"when series alone take three quarters of it, all writes with 503 when they take all of it. 0 means no limit; by default "+
		"half of the memory limit.").IsSetByUser(&c.headTotalByUser).BytesVar(asBytes(&c.headTotalBytesMax))
	cmd.Flag("storage.wal-bytes", "Size of the write-ahead log above which rows are flushed early to cut it.").Default("4GB").
		BytesVar(asBytes(&c.walBytesMax))
	cmd.Flag("storage.reserve-bytes", "Disk space that a file holds back, so that a start on a full disk can serve reads. Writes "+
		"are refused until the file is back; 0 holds nothing back.").Default("16MB").BytesVar(asBytes(&c.reserveBytes))
	cmd.Flag("storage.free-bytes", "Free disk space below which writes are refused with 503.").Default("1GB").
		BytesVar(asBytes(&c.freeBytesMin))
	cmd.Flag("storage.exit-on-failure", "End with an error once the disk has failed under the log or the tables, so that a service "+
		"manager starts the server again. Without it reads go on, and writes, /-/ready and /-/healthy are answered 503.").
		BoolVar(&c.exitOnFailure)
	cmd.Flag("storage.accept-wal-loss", "Start although the log is damaged; what is lost is named and set aside.").
		BoolVar(&c.acceptWALLoss)
	cmd.Flag(tables.AcceptTableLossFlag, "Start without the named part of the tables. The name is the one in the error message: "+
		"a file, or all. Repeat the flag for more names. Without =NAME it means all. The server logs the loss and sets the rest "+
		"aside.").
		PlaceHolder("NAME").StringsVar(&c.acceptTableLoss)
}

// hoursDefault is the retention of hourly states, unless samples are kept longer.
const hoursDefault = 400 * 24 * time.Hour

// Values of the flag --query.tiers.
const (
	tiersAuto = "auto"
	tiersRaw  = "raw"
)

// rollupConfig holds the flags of `tsdb serve` about rollups.
type rollupConfig struct {
	hours    model.Duration
	hoursSet bool
	days     model.Duration
	on, set  bool // set: the flag was given
}

func (c *rollupConfig) addFlags(cmd *kingpin.CmdClause) {
	cmd.Flag("storage.retention.hours", "Retention of hourly rollups, not shorter than raw samples; 0 is for ever. Default: "+
		"400d, or the retention of raw samples if that is longer.").IsSetByUser(&c.hoursSet).SetValue(&c.hours)
	cmd.Flag("storage.retention.days", "Retention of daily rollups, not shorter than hourly rollups; 0 is for ever.").
		Default("0s").SetValue(&c.days)
	cmd.Flag("storage.rollups", "Compute rollups of closed days, including past ones, and answer long windows from them. On by "+
		"default with the embedded engine, off with Bigtable.").Default("true").IsSetByUser(&c.set).BoolVar(&c.on)
}

// rollupsOn reports whether the server computes and reads rollups.
func (c *serveConfig) rollupsOn() bool {
	return c.rollups.on && (c.rollups.set || c.engine == tables.EnginePebble)
}

// retention returns the retention of hours and days, for a retention of raw samples.
func (c *rollupConfig) retention(raw time.Duration) (hours, days time.Duration) {
	if c.hoursSet {
		return time.Duration(c.hours), time.Duration(c.days)
	}
	if raw == 0 {
		return 0, time.Duration(c.days)
	}
	return max(hoursDefault, raw), time.Duration(c.days)
}

// Validate returns an error about contradicting flags.
func (c *rollupConfig) Validate(raw time.Duration) error {
	hours, days := c.retention(raw)
	if err := rollupstore.CheckRetention(raw, hours, days); err != nil {
		return fmt.Errorf("--storage.retention.hours, --storage.retention.days: %w", err)
	}
	return nil
}

// directConfig holds the flags of mode direct.
type directConfig struct {
	mode      string
	refresh   time.Duration
	packDelay time.Duration
	packEvery time.Duration
	writeWait time.Duration
	lease     time.Duration
}

func (c *directConfig) addFlags(cmd *kingpin.CmdClause) {
	cmd.Flag("bigtable.mode", "buffered: one server, with a log and the open hour on its disk. direct: each sample is stored "+
		"in Bigtable before it is acknowledged; any number of servers, without a disk, share the tables.").
		Default(tables.ModeBuffered).EnumVar(&c.mode, tables.ModeBuffered, tables.ModeDirect)
	cmd.Flag("bigtable.refresh", "Mode direct: how often to look for what other servers have written.").Default("2s").
		DurationVar(&c.refresh)
	cmd.Flag("bigtable.pack-delay", "Mode direct: how long after its end the rows of an hour are packed; the servers' clocks "+
		"may differ by two thirds of it.").Default("15m").DurationVar(&c.packDelay)
	cmd.Flag("bigtable.pack-interval", "Mode direct: how often the server that packs looks for hours that are due.").
		Default("1m").DurationVar(&c.packEvery)
	cmd.Flag("bigtable.write-timeout", "Mode direct: how long a write may take, repetitions of what Bigtable did not take "+
		"included, before it is answered 503.").Default("20s").DurationVar(&c.writeWait)
	cmd.Flag("bigtable.lease", "Mode direct: how long the others wait before they go on with the work of a server that has "+
		"died: packing, folding, sweeping, rollups.").Default("90s").DurationVar(&c.lease)
}

// Validate names flags that contradict each other.
func (c *directConfig) Validate(engine string) error {
	switch {
	case c.refresh <= 0 || c.packDelay <= 0 || c.packEvery <= 0 || c.writeWait <= 0 || c.lease <= 0:
		return errors.New("--bigtable.refresh, --bigtable.pack-delay, --bigtable.pack-interval, --bigtable.write-timeout and " +
			"--bigtable.lease must be above 0")
	case c.mode == tables.ModeDirect && engine != tables.EngineBigtable:
		return errors.New("--bigtable.mode=direct needs --storage.engine=bigtable")
	}
	return nil
}

func (c *serveConfig) direct() bool {
	return c.engine == tables.EngineBigtable && c.directMode.mode == tables.ModeDirect
}
