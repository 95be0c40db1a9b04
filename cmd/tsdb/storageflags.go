package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"

	"halite/cmd/tsdb/internal/program"
	"halite/cmd/tsdb/internal/tables"
	"halite/keyschema"
	rollupstore "halite/rollup/store"
)

// sharedBytes is a flag for a share of the memory. Its default is at most a part of the memory limit.
type sharedBytes struct {
	sizeBytes *int64
	part      int64 // 8 for an eighth
	offHeap   bool  // not counted by the Go runtime
	byUser    bool
}

// addShared declares such a flag.
func (c *serveConfig) addShared(flag *kingpin.FlagClause, s sharedBytes) {
	shared := &s
	flag.IsSetByUser(&shared.byUser).SetValue(program.Bytes(s.sizeBytes))
	c.shared = append(c.shared, shared)
}

func (c *serveConfig) addStorageFlags(cmd *kingpin.CmdClause) {
	cmd.Flag("storage.engine", "Engine of the tables. pebble keeps them in --storage.path, bigtable in Google Cloud Bigtable. "+
		"With both, the log is in --storage.path, except with --bigtable.mode=direct.").
		Default(tables.EnginePebble).EnumVar(&c.engine, tables.EnginePebble, tables.EngineBigtable)
	c.bigtable.AddFlags(cmd)
	cmd.Flag("bigtable.take-over", "Become the owner of tables that belong to the directory of another server. That server "+
		"must have stopped for good.").BoolVar(&c.takeOver)
	cmd.Flag("bigtable.cluster", "Cluster whose hot tablets /api/v1/status/tablets lists, as Bigtable reports them. The account "+
		"needs roles/bigtable.viewer. Default: none.").StringVar(&c.bigtable.Cluster)
	c.directMode.addFlags(cmd)
	cmd.Flag("storage.path", "Directory of all data. The server creates it if it is missing.").Default("./data").
		StringVar(&c.storagePath)
	c.retentionRaw = model.Duration(30 * 24 * time.Hour)
	cmd.Flag("storage.retention.raw", "How long to keep raw samples. 0 keeps them forever and accepts samples since 1970.").
		Default("30d").SetValue(&c.retentionRaw)
	cmd.Flag("storage.retention.histograms", "How long to keep native histograms, at most as long as raw samples. 0 keeps them as "+
		"long as raw samples.").Default("0s").SetValue(&c.histogramRetention)
	cmd.Flag("storage.retention.clock-jump", "If the clock jumps ahead by more than this, the server drops no old data until "+
		"it has run for as long. A jump while the server is stopped counts too. 0 drops at once.").Default("1d").SetValue(&c.clockJump)
	c.rollups.addFlags(cmd)
	c.addShared(cmd.Flag("storage.cache-bytes", "Memory for cached blocks of tables. The default is at most an eighth of the "+
		"memory limit.").
		Default("256MB"), sharedBytes{sizeBytes: &c.cacheBytes, part: 8, offHeap: true})
	c.addShared(cmd.Flag("storage.memtable-bytes", "Size of one memtable. The default is at most a thirty-second of the memory "+
		"limit.").
		Default("64MB"), sharedBytes{sizeBytes: &c.memtableBytes, part: 32, offHeap: true})
	cmd.Flag("storage.tablet-bytes", "Size above which the server reports a range of row keys as several tablets in "+
		"/api/v1/status/tablets and in metrics. No data moves.").Default("1GB").SetValue(program.Bytes(&c.tabletBytes))
	cmd.Flag("storage.tablet-rows", "The server splits a tablet if more rows than this were written and read between "+
		"two checks.").
		Default("67108864").Int64Var(&c.tabletRows)
	cmd.Flag("keyviz.max-memory", "Memory of the key heat map, at least 1MB. If it does not suffice, old columns lose detail. "+
		"0 turns the heat map off.").Default("32MB").SetValue(program.Bytes(&c.keyvizBytes))
	cmd.Flag("storage.index-bytes", "Memory for the index of closed days.").Default("64MB").
		SetValue(program.Bytes(&c.indexBytes))
	cmd.Flag("storage.tombstones-max", "Maximum number of deletions whose rows are not cleaned yet.").Default("10000").
		IntVar(&c.tombstonesMax)
	cmd.Flag("storage.aliases-max", "Maximum number of aliases of metrics, label names and label values, of all tenants together.").
		Default("1000").IntVar(&c.aliasesMax)
	c.addShared(cmd.Flag("storage.head-bytes", "Memory of unflushed samples above which the server flushes rows early. The "+
		"default is at most half of the memory limit.").Default("1GB"), sharedBytes{sizeBytes: &c.headBytesMax, part: 2})
	cmd.Flag("storage.head-total-bytes", "Memory of unflushed samples and of active series. At this size, "+
		"the server flushes rows early. It refuses new series with 400 when series alone take three quarters of it, and all "+
		"writes with 503 when they take all of it. 0 means no limit. Default: half of the memory limit.").
		IsSetByUser(&c.headTotalByUser).SetValue(program.Bytes(&c.headTotalBytesMax))
	cmd.Flag("storage.wal-bytes", "Size of the write-ahead log above which the server flushes rows early to truncate the log.").
		Default("4GB").SetValue(program.Bytes(&c.walBytesMax))
	cmd.Flag("storage.reserve-bytes", "Size of a file that reserves disk space, so that a start on a full disk can serve "+
		"reads. Writes are refused until the file is back. 0 reserves nothing.").Default("16MB").
		SetValue(program.Bytes(&c.reserveBytes))
	cmd.Flag("storage.free-bytes", "Free disk space below which the server refuses writes with 503.").Default("1GB").
		SetValue(program.Bytes(&c.freeBytesMin))
	cmd.Flag("storage.exit-on-failure", "Exit with an error after a failure of the disk under the log or the tables, so that a "+
		"service manager restarts the server. Without this flag, reads continue, and writes, /-/ready and /-/healthy get 503.").
		BoolVar(&c.exitOnFailure)
	cmd.Flag("storage.accept-wal-loss", "Start even if the log is damaged. The server logs the loss and moves damaged "+
		"files to wal/damaged.").
		BoolVar(&c.acceptWALLoss)
	cmd.Flag(tables.AcceptTableLossFlag, "Start without the named part of the tables. The error message has the name: "+
		"a file, or all. Repeat the flag for more names. Without =NAME it means all. The server logs the loss and "+
		"moves the remains to tables/lost.").
		PlaceHolder("NAME").StringsVar(&c.acceptTableLoss)
}

// hoursDefault is the retention of hourly states, unless samples are kept longer.
const hoursDefault = 400 * 24 * time.Hour

// Values of the flag --query.tiers.
const (
	tiersAuto = "auto"
	tiersRaw  = "raw"
)

// rollupConfig holds the rollup flags of `tsdb serve`.
type rollupConfig struct {
	hours    model.Duration
	hoursSet bool
	days     model.Duration
	on, set  bool // set: the flag was given
}

func (c *rollupConfig) addFlags(cmd *kingpin.CmdClause) {
	cmd.Flag("storage.retention.hours", "How long to keep hourly rollups, at least as long as raw samples. 0 keeps them "+
		"forever. Default: 400d, or the retention of raw samples if that is longer.").IsSetByUser(&c.hoursSet).SetValue(&c.hours)
	cmd.Flag("storage.retention.days", "How long to keep daily rollups, at least as long as hourly rollups. 0 keeps "+
		"them forever.").
		Default("0s").SetValue(&c.days)
	cmd.Flag("storage.rollups", "Compute rollups of closed days, also of past ones, and answer long windows from them. The "+
		"default is on with engine pebble and off with engine bigtable.").Default("true").IsSetByUser(&c.set).BoolVar(&c.on)
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

// histogramFaults returns an error if native histograms cannot be kept for the time of the flag.
func (c *serveConfig) histogramFaults() []error {
	age, raw := time.Duration(c.histogramRetention), time.Duration(c.retentionRaw)
	switch {
	case age == 0:
		return nil
	case age < time.Duration(keyschema.AgeMin):
		return []error{fmt.Errorf("--storage.retention.histograms is %s; it must be 0, or at least 1d, the span of a partition",
			c.histogramRetention)}
	case raw != 0 && age > raw:
		return []error{fmt.Errorf("--storage.retention.histograms is %s; it must not be longer than "+
			"--storage.retention.raw, which is %s", c.histogramRetention, c.retentionRaw)}
	}
	return nil
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
	cmd.Flag("bigtable.mode", "How to write to Bigtable. buffered: one server keeps a log and the open hour on its disk. "+
		"direct: any number of servers without a disk share the tables and store each sample in Bigtable before they "+
		"acknowledge it.").
		Default(tables.ModeBuffered).EnumVar(&c.mode, tables.ModeBuffered, tables.ModeDirect)
	cmd.Flag("bigtable.refresh", "Mode direct: interval at which a server reads the writes of other servers.").Default("2s").
		DurationVar(&c.refresh)
	cmd.Flag("bigtable.pack-delay", "Mode direct: time after the end of an hour before its rows are packed. The clocks of the "+
		"servers may differ by two thirds of it.").Default("15m").DurationVar(&c.packDelay)
	cmd.Flag("bigtable.pack-interval", "Mode direct: interval at which the packing server looks for hours to pack.").
		Default("1m").DurationVar(&c.packEvery)
	cmd.Flag("bigtable.write-timeout", "Mode direct: maximum time of a write to Bigtable, retries included. After that, the "+
		"write gets 503.").Default("20s").DurationVar(&c.writeWait)
	cmd.Flag("bigtable.lease", "Mode direct: time after which another server takes over the background work of a dead one: "+
		"packing, compaction, retention and rollups.").Default("90s").DurationVar(&c.lease)
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
