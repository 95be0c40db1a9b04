package loadtest

import "time"

// Report is the outcome of Run, and of each target of Compare.
type Report struct {
	Target  string    `json:"target"`
	Started time.Time `json:"started"`
	// Seconds that the load took; Interrupted says that it was ended early.
	Seconds     float64       `json:"seconds"`
	Interrupted bool          `json:"interrupted"`
	Load        Load          `json:"load"`
	Writes      Writes        `json:"writes"`
	Queries     *Queries      `json:"queries,omitempty"`
	Freshness   *Freshness    `json:"freshness,omitempty"`
	Verified    *Verification `json:"verification,omitempty"`
	Spread      *KeySpread    `json:"spread,omitempty"`
	Server      *ServerUse    `json:"server,omitempty"`
	Disk        *DiskUse      `json:"disk,omitempty"`
	// Notes say what could not be measured.
	Notes []string `json:"notes,omitempty"`
}

// Failed reports whether the run found something wrong with the server: acknowledged samples that are missing or
// different, or samples that it never acknowledged.
func (r *Report) Failed() bool {
	return r.Verified != nil && !r.Verified.Passed() || r.Writes.Rejected > 0 || r.Writes.Abandoned > 0
}

// Load describes what was sent.
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

func describeLoad(o *Options, t *timeline) Load {
	l := Load{
		Seed: o.Fleet.Seed, Series: t.slots, Hosts: o.Fleet.Hosts, HotSeries: o.Fleet.HotSeries, ZipfSeries: o.Fleet.ZipfSeries,
		IntervalSeconds: t.intervalMs / 1e3, Rate: o.Rate, Senders: o.Senders, RequestSamples: o.RequestSamples,
		Shuffled: o.Shuffle, OutOfOrderPercent: o.OutOfOrderPercent, LatePercent: o.LatePercent,
		RewrittenPercent: o.RewrittenPercent, ChurnPercent: o.Fleet.ChurnPercent,
	}
	if o.LatePercent+o.RewrittenPercent > 0 {
		l.LateBySeconds = o.LateBy.Seconds()
	}
	l.From = time.UnixMilli(t.startMs).UTC()
	if n := t.begun(); n > 0 {
		l.To = time.UnixMilli(t.tsMs(0, n-1)).UTC()
	}
	return l
}
