package report

import (
	"time"

	"halite/loadtest/client"
	"halite/loadtest/distribution"
	"halite/loadtest/load"
	"halite/loadtest/measure"
	"halite/loadtest/probe"
	"halite/loadtest/verify"
)

// Report is the outcome of a load on one target.
type Report struct {
	Target  string    `json:"target"`
	Started time.Time `json:"started"`
	// Seconds is the length of the load. Interrupted is true if a signal ended it early.
	Seconds      float64              `json:"seconds"`
	Interrupted  bool                 `json:"interrupted"`
	Load         Load                 `json:"load"`
	Writes       client.Writes        `json:"writes"`
	Queries      *probe.Queries       `json:"queries,omitempty"`
	Freshness    *probe.Freshness     `json:"freshness,omitempty"`
	Verification *verify.Result       `json:"verification,omitempty"`
	Distribution *distribution.Report `json:"distribution,omitempty"`
	Server       *measure.ServerUsage `json:"server,omitempty"`
	Disk         *measure.DiskUsage   `json:"disk,omitempty"`
	// Notes say what was not measured, and why.
	Notes []string `json:"notes,omitempty"`
}

// Failed reports whether acknowledged samples are missing or different, or samples were not acknowledged.
func (r *Report) Failed() bool {
	return r.Verification != nil && !r.Verification.Passed() || r.Writes.Rejected > 0 || r.Writes.Abandoned > 0
}

// Load describes the samples that were sent.
type Load struct {
	Seed              uint64    `json:"seed"`
	Series            int       `json:"series"`
	Hosts             int       `json:"hosts"`
	HotSeries         int       `json:"hot_series,omitempty"`
	ZipfSeries        int       `json:"zipf_series,omitempty"`
	IntervalSeconds   float64   `json:"interval_seconds"`
	Rate              float64   `json:"rate_samples_per_second,omitempty"`
	From              time.Time `json:"from"`
	To                time.Time `json:"to"`
	Senders           int       `json:"senders"`
	RequestSamples    int       `json:"request_samples"`
	Shuffled          bool      `json:"shuffled"`
	OutOfOrderPercent float64   `json:"out_of_order_percent"`
	LatePercent       float64   `json:"late_percent"`
	RewrittenPercent  float64   `json:"rewritten_percent"`
	LateBySeconds     float64   `json:"late_by_seconds,omitempty"`
	ChurnPercent      float64   `json:"churn_percent"`
}

// DescribeLoad returns the description of a load.
func DescribeLoad(o *load.Options, t *load.Timeline) Load {
	l := Load{
		Seed: o.Fleet.Seed, Series: t.Slots(), Hosts: o.Fleet.Hosts, HotSeries: o.Fleet.HotSeries, ZipfSeries: o.Fleet.ZipfSeries,
		IntervalSeconds: t.IntervalMs() / 1e3, Rate: o.Rate, Senders: o.Senders, RequestSamples: o.RequestSamples,
		Shuffled: o.Shuffle, OutOfOrderPercent: o.OutOfOrderPercent, LatePercent: o.LatePercent,
		RewrittenPercent: o.RewrittenPercent, ChurnPercent: o.Fleet.ChurnPercent,
	}
	if o.LatePercent+o.RewrittenPercent > 0 {
		l.LateBySeconds = o.LateBy.Seconds()
	}
	l.From = time.UnixMilli(t.StartMs()).UTC()
	if n := t.StepsBegun(); n > 0 {
		l.To = time.UnixMilli(t.TsMs(0, n-1)).UTC()
	}
	return l
}
