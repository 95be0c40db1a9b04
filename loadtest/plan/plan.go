package plan

import (
	"errors"
	"slices"
)

// Write modes of a server.
const (
	// Buffered: the server keeps the log and the open hour on its disk and writes packed rows to Bigtable.
	Buffered = "buffered"
	// Direct: the server writes each sample to Bigtable as a cell before it acknowledges it, and packs rows later.
	Direct = "direct"
)

// Plan is the estimate for a load.
type Plan struct {
	Load   Load   `json:"load"`
	Costs  Costs  `json:"costs"`
	Limits Limits `json:"limits"`

	SamplesPerSecond float64 `json:"samples_per_second"`
	SamplesPerDay    float64 `json:"samples_per_day"`
	// RowBytes is the size of the packed row of a series and hour.
	RowBytes float64 `json:"row_bytes"`
	// TabletSeries is the number of series whose stored rows fill a tablet.
	TabletSeries float64 `json:"tablet_series"`
	// Modes has a plan for mode buffered and one for mode direct.
	Modes []Mode `json:"modes"`
}

// Mode is the plan for one write mode. Rates and bytes are per cluster.
type Mode struct {
	Name string `json:"name"`
	// RowsPerSecond and CellsPerSecond are mean rates of writes, including packed rows and rollups. The service counts
	// each mutation as a row.
	RowsPerSecond  float64 `json:"rows_per_second"`
	CellsPerSecond float64 `json:"cells_per_second"`
	// PeakRowsPerSecond is the rate while the rows of an hour are flushed.
	PeakRowsPerSecond float64 `json:"peak_rows_per_second"`
	// BytesPerSecond is the mean rate of keys, qualifiers and values. WireBytesPerSecond is the mean rate of requests.
	BytesPerSecond     float64 `json:"bytes_per_second"`
	PeakBytesPerSecond float64 `json:"peak_bytes_per_second"`
	WireBytesPerSecond float64 `json:"wire_bytes_per_second"`
	// ReadRowsPerSecond is the rate of rows that queries and the packing of rows read.
	ReadRowsPerSecond float64 `json:"read_rows_per_second"`
	Storage           Storage `json:"storage"`
	Nodes             Nodes   `json:"nodes"`
	// MonthlyCost is the cost of all clusters in the currency of Prices. It is 0 without prices.
	MonthlyCost float64 `json:"monthly_cost,omitempty"`
	// FlushTablets is the number of tablets that one server's flush writes to at a time. It is 0 in mode direct.
	FlushTablets float64 `json:"flush_tablets"`
}

// Storage has the stored bytes before compression. They include expired data that the service may keep for a week.
type Storage struct {
	SampleBytes   float64 `json:"sample_bytes"`
	UnpackedBytes float64 `json:"unpacked_bytes"`
	HoursBytes    float64 `json:"hours_bytes"`
	DaysBytes     float64 `json:"days_bytes"`
	IndexBytes    float64 `json:"index_bytes"`
	TotalBytes    float64 `json:"total_bytes"`
}

// Nodes has the number of nodes per purpose and cluster, and the total of all clusters.
type Nodes struct {
	Writing int `json:"writing"`
	Reading int `json:"reading"`
	Storing int `json:"storing"`
	// Cluster is the larger of Storing and the nodes for writing and reading together.
	Cluster int `json:"cluster"`
	Total   int `json:"total"`
}

// unpackedHours is the time for which mode direct stores single cells: the hour itself, and one hour until its row is
// packed.
const unpackedHours = 2

// gcDays is the time for which the service may keep expired data.
const gcDays = 7

// Prices are used to compute the monthly cost. Zero fields cost nothing.
type Prices struct {
	NodeHour float64 `json:"node_hour"`
	GBMonth  float64 `json:"gb_month"`
}

// monthHours is the mean length of a month.
const monthHours = monthDays * 24

// Make returns the plan for a load.
func Make(load Load, costs Costs, limits Limits, prices Prices) (Plan, error) {
	if err := load.Validate(); err != nil {
		return Plan{}, err
	}
	if !(prices.NodeHour >= 0 && prices.GBMonth >= 0) {
		return Plan{}, errors.New("plan: a price is negative")
	}
	if err := limits.Validate(); err != nil {
		return Plan{}, err
	}
	load = load.withDefaults()
	p := Plan{Load: load, Costs: costs, Limits: limits,
		SamplesPerSecond: float64(load.Series) / load.Interval.Seconds(),
		RowBytes:         costs.RowBytes + costs.RowSampleBytes*load.samplesPerHour()}
	p.SamplesPerDay = p.SamplesPerSecond * day.Seconds()
	p.TabletSeries = max(1, limits.TabletBytes/(p.RowBytes*24*p.rawDays()))
	p.Modes = []Mode{p.buffered(), p.direct()}
	for i := range p.Modes {
		m := &p.Modes[i]
		p.complete(m)
		m.MonthlyCost = float64(m.Nodes.Total)*monthHours*prices.NodeHour +
			m.Storage.TotalBytes*float64(p.Load.Replicas)/1e9*prices.GBMonth
	}
	return p, nil
}

// OnlyMode returns a list with only the mode of the given name.
func (p *Plan) OnlyMode(name string) []Mode {
	return slices.DeleteFunc(slices.Clone(p.Modes), func(m Mode) bool { return m.Name != name })
}

// packed returns the mean rates of writing the rows of closed hours.
func (p *Plan) packed() (rowsPerSecond, bytesPerSecond float64) {
	rowsPerSecond = p.Load.rowsPerDay() / day.Seconds()
	return rowsPerSecond, rowsPerSecond * p.RowBytes
}

// derived returns the mean rates of writing rollups and the series index.
func (p *Plan) derived() (rowsPerSecond, bytesPerSecond float64) {
	perDay := p.Load.seriesDays()
	bytesPerDay := perDay * p.Costs.IndexBytes
	rowsPerDay := 0.0
	if p.Load.Hours > 0 {
		rowsPerDay += perDay
		bytesPerDay += perDay * p.Costs.HoursBytes
	}
	if p.Load.Days > 0 {
		rowsPerDay += perDay / monthDays
		bytesPerDay += perDay * p.Costs.DaysBytes / monthDays
	}
	return rowsPerDay / day.Seconds(), bytesPerDay / day.Seconds()
}

func (p *Plan) buffered() Mode {
	rows, bytes := p.packed()
	// All rows of an hour are due at once. Their writes are spread over the window.
	peakFactor := 3600 / p.Load.FlushWindow.Seconds()
	m := Mode{Name: Buffered, RowsPerSecond: rows, CellsPerSecond: rows, PeakRowsPerSecond: rows * peakFactor,
		BytesPerSecond: bytes, PeakBytesPerSecond: bytes * peakFactor, WireBytesPerSecond: bytes + rows*p.Costs.RowWireBytes}
	requestRows := min(p.Limits.RequestRows, p.Limits.RequestBytes/p.RowBytes)
	// The rows of a request are consecutive. They lie on requestRows/TabletSeries tablets, plus half a tablet at each end.
	m.FlushTablets = min(p.Limits.RequestsInFlight*(requestRows/p.TabletSeries+1), float64(p.Load.Series)/p.TabletSeries+1)
	return m
}

func (p *Plan) direct() Mode {
	packedRows, packedBytes := p.packed()
	cells := p.SamplesPerSecond
	m := Mode{Name: Direct, RowsPerSecond: cells + packedRows, CellsPerSecond: cells + packedRows,
		BytesPerSecond:     cells*p.Costs.CellBytes + packedBytes,
		WireBytesPerSecond: cells*(p.Costs.CellBytes+p.Costs.CellWireBytes) + packedBytes + packedRows*p.Costs.RowWireBytes,
		ReadRowsPerSecond:  packedRows}
	m.PeakRowsPerSecond, m.PeakBytesPerSecond = m.RowsPerSecond, m.BytesPerSecond
	m.Storage.UnpackedBytes = cells * unpackedHours * 3600 * p.Costs.CellStoredBytes
	return m
}

func (p *Plan) rawDays() float64 { return p.Load.Raw.Hours() / 24 }

// complete adds rollups, index, reads, storage and nodes to the plan of a mode.
func (p *Plan) complete(m *Mode) {
	rows, bytes := p.derived()
	m.RowsPerSecond += rows
	m.CellsPerSecond += rows
	m.PeakRowsPerSecond += rows
	m.BytesPerSecond += bytes
	m.PeakBytesPerSecond += bytes
	m.WireBytesPerSecond += bytes + rows*p.Costs.RowWireBytes
	m.ReadRowsPerSecond += p.Load.ReadRowsPerSecond

	perDay := p.Load.seriesDays()
	s := &m.Storage
	s.SampleBytes = p.Load.rowsPerDay() * p.RowBytes * (p.rawDays() + gcDays)
	longest := p.rawDays()
	if p.Load.Hours > 0 {
		longest = p.Load.Hours.Hours() / 24
		s.HoursBytes = perDay * p.Costs.HoursBytes * (longest + gcDays)
	}
	if p.Load.Days > 0 {
		longest = p.Load.Days.Hours() / 24
		s.DaysBytes = perDay * p.Costs.DaysBytes / monthDays * (longest + gcDays)
	}
	s.IndexBytes = perDay * p.Costs.IndexBytes * (longest + gcDays)
	s.TotalBytes = s.SampleBytes + s.UnpackedBytes + s.HoursBytes + s.DaysBytes + s.IndexBytes

	n, l := &m.Nodes, &p.Limits
	n.Writing = l.writeNodes(m.PeakRowsPerSecond, m.PeakBytesPerSecond)
	n.Reading = l.nodes(m.ReadRowsPerSecond, l.RowReadsPerSecond)
	if p.Load.Hours > 0 {
		// The job that computes rollups scans all stored samples once a day.
		n.Reading += l.nodes(s.SampleBytes/day.Seconds(), l.ScanBytesPerSecond)
	}
	n.Storing = l.nodes(s.TotalBytes, l.StorageBytes)
	busy := l.nodes(max(m.PeakRowsPerSecond, m.PeakBytesPerSecond/l.RowBytes)/l.RowWritesPerSecond+
		m.ReadRowsPerSecond/l.RowReadsPerSecond+p.scanShare(s), 1)
	n.Cluster = max(1, busy, n.Storing)
	n.Total = n.Cluster * p.Load.Replicas
}

// scanShare returns the scan load of computing rollups, in nodes.
func (p *Plan) scanShare(s *Storage) float64 {
	if p.Load.Hours == 0 {
		return 0
	}
	return s.SampleBytes / day.Seconds() / p.Limits.ScanBytesPerSecond
}
