package storage

import (
	"time"

	"halite/keyschema"
)

// The fixed set of tables and their one-letter families. Names are stored on disk: never change them.
const (
	// TableData has one row per series and hour: metric#salt#tags#reversed-hour.
	TableData = "data"
	// TableSeries and TableLabels hold the series index: metric#reversed-day and name#reversed-day.
	TableSeries = "series"
	TableLabels = "labels"
	// TableRollup has one row per series and month: metric#salt#tags#reversed-month.
	TableRollup = "rollup"
	// TableMeta holds schema rules, counters, label sets too long for a key, and metric metadata.
	TableMeta = "meta"

	// FamilySamples holds float samples: single samples and chunks.
	FamilySamples = "s"
	// FamilyHistograms holds native histograms.
	FamilyHistograms = "h"
	// FamilyExemplars holds exemplars.
	FamilyExemplars = "x"
	// FamilyStartTimes holds the start timestamps of samples.
	FamilyStartTimes = "t"
	// FamilyIndex holds the columns and dictionaries of the series index.
	FamilyIndex = "c"
	// FamilyHours and FamilyDays hold the rollups of a series: one cell per day with its hours, and one cell per month with
	// its days.
	FamilyHours = "h"
	FamilyDays  = "d"
	// FamilyMeta holds everything in TableMeta.
	FamilyMeta = "m"
)

// DataSchema is the schema of TableData with raw retention; 0 keeps samples forever. The timestamp of a cell is the last
// millisecond of its hour, so GC policies act on the age of the samples.
func DataSchema(retention time.Duration) TableSchema {
	gc := GCPolicy{MaxAge: retention, MaxVersions: 1}
	return TableSchema{Name: TableData, HourKeys: true, Families: []Family{
		{Name: FamilySamples, GC: gc}, {Name: FamilyHistograms, GC: gc}, {Name: FamilyExemplars, GC: gc},
		{Name: FamilyStartTimes, GC: gc},
	}}
}

// SampleFamily returns the family of TableData that holds samples of a kind.
func SampleFamily(kind keyschema.SampleKind) string {
	switch kind {
	case keyschema.Histograms:
		return FamilyHistograms
	case keyschema.Exemplars:
		return FamilyExemplars
	case keyschema.StartTimes:
		return FamilyStartTimes
	default:
		return FamilySamples
	}
}

// SampleFamilies lists the families of TableData, by kind of samples.
func SampleFamilies() []string {
	return []string{FamilySamples, FamilyHistograms, FamilyExemplars, FamilyStartTimes}
}

// IndexSchema is the schema of TableSeries or TableLabels. The timestamp of a cell is the last millisecond of its day.
func IndexSchema(name string, retention time.Duration) TableSchema {
	if retention > 0 {
		retention += 24 * time.Hour
	}
	return TableSchema{Name: name, Families: []Family{
		{Name: FamilyIndex, GC: GCPolicy{MaxAge: retention, MaxVersions: 1}},
	}}
}

// RollupSchema is the schema of TableRollup with the retention of hours and days; 0 keeps them forever. The timestamp of a
// cell is the last millisecond of its day (hours) or month (days). So a cell lives until all of it has expired.
func RollupSchema(hours, days time.Duration) TableSchema {
	return TableSchema{Name: TableRollup, Families: []Family{
		{Name: FamilyHours, GC: GCPolicy{MaxAge: hours, MaxVersions: 1}},
		{Name: FamilyDays, GC: GCPolicy{MaxAge: days, MaxVersions: 1}},
	}}
}

// MetaSchema is the schema of TableMeta. All its cells have timestamp 0.
func MetaSchema() TableSchema {
	return TableSchema{Name: TableMeta, Families: []Family{{Name: FamilyMeta, GC: GCPolicy{MaxVersions: 1}}}}
}
