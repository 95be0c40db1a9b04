package doctor

import "time"

// Facts describe a server at one time. A check skips facts that are missing.
type Facts struct {
	// NowMs is the time of the facts, StartMs the start of the server, both in milliseconds since 1970.
	NowMs, StartMs int64
	// Ready says whether the server answers requests and accepts writes. NotReady says why it does not.
	Ready    bool
	NotReady string

	// Values are the server's own metrics by name. A metric with several label values has their sum.
	Values map[string]float64
	// Increases are the increases of counters within Window.
	Increases map[string]float64
	Window    time.Duration

	// Limits are limits of the server with their use.
	Limits []Limit
	// FlushedMs is the time of the last flush that is known, milliseconds since 1970; the start if there was none.
	FlushedMs int64
	// Refusals are the refused writes of the past hour.
	Refusals []Refusal
	// Skews are senders whose newest samples lie in the future.
	Skews []Skew
	// Heat is the diagnosis of the key heat map. HeatOff says that the server counts no load.
	Heat    []Heat
	HeatOff bool
	// Metrics are metrics with their load and their salts.
	Metrics []MetricLoad
	// WideRows are the widest rows written lately, the widest first.
	WideRows []WideRow
	// Cardinality compares the active series with the series of some time ago.
	Cardinality Cardinality
	// Disk are measurements of the free space on the disk of the data, the oldest first.
	Disk []Disk
}

// Limit is a limit of the server.
type Limit struct {
	// Name says what is limited, such as "active series". Bytes says that the figures are bytes.
	Name      string
	Bytes     bool
	Used, Max float64
	// Fix is the flag or key that raises the limit.
	Fix string
}

// Refusal counts the requests or samples that were refused for one reason.
type Refusal struct {
	// What is the count in words, and Words the cause. Line is the configuration that fixes it, and Where its place;
	// both may be "".
	What, Reason, Words, Line, Where string
	// From is the last sender, Example the last message.
	From, Example string
	// Temporary says that the sender sends the samples again, Stored that the samples are stored nevertheless.
	Temporary, Stored bool
}

// Skew is a sender whose newest sample lies in the future.
type Skew struct {
	From  string
	Ahead time.Duration
	// Refused says that samples were refused for that reason.
	Refused bool
}

// Heat is a finding of the key heat map.
type Heat struct {
	// ID, such as "hot-range", and Danger come from the finding. Load is the kind of load.
	ID     string
	Danger bool
	Load   string
	// Metric is the metric of the keys; "" if the keys are of several metrics. Salts is its number of salts.
	Metric string
	Salts  int
	// Share is the part of the load, from 0 to 1. PerSecond is its rate. Text describes the finding.
	Share, PerSecond float64
	Text             string
}

// MetricLoad is a metric with its salts and its load.
type MetricLoad struct {
	Metric string
	Salts  int
	Series int // 0 if unknown
	// RowsPerSecond is the load of the table in the busiest minute: rows written and read.
	RowsPerSecond float64
}

// WideRow is a row with many bytes.
type WideRow struct {
	Key       string
	SizeBytes int64
}

// Cardinality compares the active series of two times.
type Cardinality struct {
	SeriesBefore, SeriesNow int
	// Window is the time between them; 0 if there is only one.
	Window time.Duration
	// Label is the label whose number of values has grown most. Metric is the metric whose number of series has grown
	// most. Both may be "".
	Label                   string
	ValuesBefore, ValuesNow int
	Metric                  string
	MetricBefore, MetricNow int
}

// Disk is the free space of the disk at a time, milliseconds since 1970.
type Disk struct {
	TsMs                  int64
	FreeBytes, TotalBytes int64
}
