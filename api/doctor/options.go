package doctor

import (
	"errors"
	"fmt"
	"time"

	"halite/storage"
)

// Options are the thresholds of the checks. DefaultOptions has the defaults.
type Options struct {
	// SaltRowsPerSecond is the load that one salt may have, in rows a second. A node of Bigtable takes about that many.
	SaltRowsPerSecond float64
	// SaltsFew is the number of salts up to which a metric never has too many. The default rule has as many.
	SaltsFew int
	// SaltsOver: a metric has too many salts if it has more than SaltsOver times the number that its load needs.
	SaltsOver int
	// HotShareGoal is the share of the load that a range should have at most. It decides the number of salts in the advice.
	HotShareGoal float64

	// HotPerSecond is the load from which a hot range is more than a remark.
	HotPerSecond float64

	// WideRowBytes is the size of a wide row, HugeRowBytes the size of one that endangers reads. RowBytesMax is the largest row.
	WideRowBytes, HugeRowBytes int64
	RowBytesMax                float64

	// SeriesJump is the growth of the active series within the window that counts as a jump, 0.5 for a half. SeriesJumpMin is
	// the minimum of the series before the jump, and of the new ones.
	SeriesJump    float64
	SeriesJumpMin int

	// FlushAge is the time without a flush at which unflushed rows count as lag.
	FlushAge time.Duration
	// DebtShare is the share of the store that may wait for compaction before the check warns. DebtBytesMin is the minimum
	// debt.
	DebtShare    float64
	DebtBytesMin float64
	// ReadRuns is the number of sorted runs that a read may search before the check warns.
	ReadRuns float64
	// RollupLag and RollupLagCritical are ages of days without rollups.
	RollupLag, RollupLagCritical time.Duration
	// SweepLag is the time since the last complete sweep.
	SweepLag time.Duration

	// LimitWarn and LimitCritical are shares of a limit.
	LimitWarn, LimitCritical float64
	// LateShare is the share of late rows in the flushed rows, LateRowsMin the minimum number of late rows.
	LateShare   float64
	LateRowsMin float64
	// Ahead is the time by which samples may lie in the future.
	Ahead time.Duration

	// DiskWarn and DiskCritical are times until the disk is full. DiskWindowMin is the minimum time over which growth is measured.
	DiskWarn, DiskCritical, DiskWindowMin time.Duration
	// DiskFreeShare is the free share of the disk below which the check warns whatever the growth. Below DiskFreeCritical the
	// verdict is critical.
	DiskFreeShare, DiskFreeCritical float64

	// ListMax bounds the verdicts of one check.
	ListMax int
}

// DefaultOptions returns the thresholds that the server uses.
func DefaultOptions() Options {
	return Options{
		SaltRowsPerSecond: 10_000, SaltsFew: 16, SaltsOver: 8, HotShareGoal: 0.05, HotPerSecond: 1000,
		WideRowBytes: storage.WideRowBytes, HugeRowBytes: storage.RowMutationBytesMax, RowBytesMax: storage.RowBytesMax,
		SeriesJump: 0.5, SeriesJumpMin: 1000,
		FlushAge: 3 * time.Hour, DebtShare: 0.2, DebtBytesMin: 4 << 30, ReadRuns: 50,
		RollupLag: 12 * time.Hour, RollupLagCritical: 3 * 24 * time.Hour, SweepLag: 6 * time.Hour,
		LimitWarn: 0.8, LimitCritical: 0.95, LateShare: 0.1, LateRowsMin: 1000, Ahead: time.Minute,
		DiskWarn: 14 * 24 * time.Hour, DiskCritical: 2 * 24 * time.Hour, DiskWindowMin: time.Hour, DiskFreeShare: 0.1,
		DiskFreeCritical: 0.03,
		ListMax:          5,
	}
}

// Validate lists every fault.
func (o *Options) Validate() error {
	var faults []error
	for _, x := range []struct {
		name  string
		value float64
	}{
		{"SaltRowsPerSecond", o.SaltRowsPerSecond}, {"SaltsFew", float64(o.SaltsFew)},
		{"SaltsOver", float64(o.SaltsOver)}, {"HotShareGoal", o.HotShareGoal}, {"HotPerSecond", o.HotPerSecond},
		{"WideRowBytes", float64(o.WideRowBytes)}, {"HugeRowBytes", float64(o.HugeRowBytes)},
		{"RowBytesMax", o.RowBytesMax}, {"SeriesJump", o.SeriesJump},
		{"SeriesJumpMin", float64(o.SeriesJumpMin)}, {"FlushAge", float64(o.FlushAge)},
		{"DebtShare", o.DebtShare}, {"DebtBytesMin", o.DebtBytesMin}, {"ReadRuns", o.ReadRuns},
		{"RollupLag", float64(o.RollupLag)}, {"RollupLagCritical", float64(o.RollupLagCritical)},
		{"SweepLag", float64(o.SweepLag)}, {"LimitWarn", o.LimitWarn}, {"LimitCritical", o.LimitCritical},
		{"LateShare", o.LateShare}, {"LateRowsMin", o.LateRowsMin}, {"Ahead", float64(o.Ahead)},
		{"DiskWarn", float64(o.DiskWarn)}, {"DiskCritical", float64(o.DiskCritical)},
		{"DiskWindowMin", float64(o.DiskWindowMin)}, {"DiskFreeShare", o.DiskFreeShare},
		{"DiskFreeCritical", o.DiskFreeCritical},
		{"ListMax", float64(o.ListMax)},
	} {
		if !(x.value > 0) {
			faults = append(faults, fmt.Errorf("doctor: %s is %v: it must be above 0", x.name, x.value))
		}
	}
	for _, x := range []struct {
		name     string
		low, top float64
	}{
		{"LimitWarn", o.LimitWarn, o.LimitCritical}, {"WideRowBytes", float64(o.WideRowBytes), float64(o.HugeRowBytes)},
		{"RollupLag", float64(o.RollupLag), float64(o.RollupLagCritical)},
		{"DiskCritical", float64(o.DiskCritical), float64(o.DiskWarn)}, {"DiskFreeCritical", o.DiskFreeCritical, o.DiskFreeShare},
	} {
		if x.low > x.top {
			faults = append(faults, fmt.Errorf("doctor: %s is %v, above %v", x.name, x.low, x.top))
		}
	}
	return errors.Join(faults...)
}
