package plan

import (
	"errors"
	"slices"
)

// Modes of a server.
const (
	// Buffered: the log and the open hour are on the server's disk, rows go to Bigtable packed.
	Buffered = "buffered"
	// Through: each sample goes to Bigtable as a cell before it is acknowledged; rows are packed afterwards.
	Through = "through"
)

// Plan is what a load takes.
type Plan struct {
	Load   Load   `json:"load"`
	Costs  Costs  `json:"costs"`
	Limits Limits `json:"limits"`

	SamplesPerSecond float64 `json:"samples_per_second"`
	SamplesPerDay    float64 `json:"samples_per_day"`
	// RowBytes is the packed row of a series and hour.
	RowBytes float64 `json:"row_bytes"`
	// TabletSeries is the number of series whose kept rows fill a tablet.
	TabletSeries float64 `json:"tablet_series"`
	// Modes are buffered and through.
	Modes []Mode `json:"modes"`
}

// Mode is a plan for one mode of writing. Rates and bytes are of one cluster; Nodes of all.
type Mode struct {
	Name string `json:"name"`
	// RowsPerSecond and CellsPerSecond are written in the mean, packed rows and rollups included; the service counts a row
	// for each mutation of it.
	RowsPerSecond  float64 `json:"rows_per_second"`
	CellsPerSecond float64 `json:"cells_per_second"`
	// PeakRowsPerSecond is while an hour's rows are written.
	PeakRowsPerSecond float64 `json:"peak_rows_per_second"`
	// BytesPerSecond is of keys, qualifiers and values in the mean, WireBytesPerSecond of requests.
	BytesPerSecond     float64 `json:"bytes_per_second"`
	PeakBytesPerSecond float64 `json:"peak_bytes_per_second"`
	WireBytesPerSecond float64 `json:"wire_bytes_per_second"`
	// ReadRowsPerSecond is what queries and the packing of rows read.
	ReadRowsPerSecond float64 `json:"read_rows_per_second"`
	Storage           Storage `json:"storage"`
	Nodes             Nodes   `json:"nodes"`
	// MonthlyCost is of all clusters, in the currency of Prices; 0 without prices.
	MonthlyCost float64 `json:"monthly_cost,omitempty"`
	// FlushTablets is the number of tablets that one server's flush writes to at a time; 0 where
	// there is no flush.
	FlushTablets float64 `json:"flush_tablets"`
}

// Storage is bytes before the service compresses them, garbage included that it may keep for a week.
type Storage struct {
	SampleBytes    float64 `json:"sample_bytes"`
	OpenBytes      float64 `json:"open_bytes"`
	HoursBytes     float64 `json:"hours_bytes"`
	DaysBytes      float64 `json:"days_bytes"`
	CatalogueBytes float64 `json:"catalogue_bytes"`
	TotalBytes     float64 `json:"total_bytes"`
}

// Nodes says why so many are needed: the parts are of one cluster, Total of all.
type Nodes struct {
	Writing int `json:"writing"`
	Reading int `json:"reading"`
	Storing int `json:"storing"`
	// Cluster is the most of storing on the one hand, writing and reading together on the other.
	Cluster int `json:"cluster"`
	Total   int `json:"total"`
}

// openHours is how long single cells rest beside the packed run in mode through: the hour itself, and one until its row
// has been packed.
const openHours = 2

// gcDays is how long the service may keep what has expired.
const gcDays = 7

// Prices are what a month is reckoned with; zero fields cost nothing.
type Prices struct {
	NodeHour float64 `json:"node_hour"`
	GBMonth  float64 `json:"gb_month"`
}

// monthHours is the mean length of a month.
const monthHours = monthDays * 24

// Make plans a load.
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
	p.Modes = []Mode{p.buffered(), p.through()}
	for i := range p.Modes {
		m := &p.Modes[i]
		p.complete(m)
		m.MonthlyCost = float64(m.Nodes.Total)*monthHours*prices.NodeHour +
			m.Storage.TotalBytes*float64(p.Load.Replicas)/1e9*prices.GBMonth
	}
	return p, nil
}

// OnlyMode returns the mode of that name, alone.
func (p *Plan) OnlyMode(name string) []Mode {
	return slices.DeleteFunc(slices.Clone(p.Modes), func(m Mode) bool { return m.Name != name })
}

// packed are the rows of closed hours, in the mean of a day.
func (p *Plan) packed() (rowsPerSecond, bytesPerSecond float64) {
	rowsPerSecond = p.Load.rowsPerDay() / day.Seconds()
	return rowsPerSecond, rowsPerSecond * p.RowBytes
}

// beside is what rollups and the catalogue write, in the mean of a day.
func (p *Plan) beside() (rowsPerSecond, bytesPerSecond float64) {
	perDay := p.Load.seriesDays()
	bytesPerDay := perDay * p.Costs.CatalogueBytes
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
	// All rows of an hour come at once and are spread over the window.
	crowd := 3600 / p.Load.FlushWindow.Seconds()
	m := Mode{Name: Buffered, RowsPerSecond: rows, CellsPerSecond: rows, PeakRowsPerSecond: rows * crowd,
		BytesPerSecond: bytes, PeakBytesPerSecond: bytes * crowd, WireBytesPerSecond: bytes + rows*p.Costs.RowWireBytes}
	requestRows := min(p.Limits.RequestRows, p.Limits.RequestBytes/p.RowBytes)
	// A request's rows follow each other: it meets the tablets that they lie on, and half of one more at each end.
	m.FlushTablets = min(p.Limits.RequestsInFlight*(requestRows/p.TabletSeries+1), float64(p.Load.Series)/p.TabletSeries+1)
	return m
}

func (p *Plan) through() Mode {
	packedRows, packedBytes := p.packed()
	cells := p.SamplesPerSecond
	m := Mode{Name: Through, RowsPerSecond: cells + packedRows, CellsPerSecond: cells + packedRows,
		BytesPerSecond:     cells*p.Costs.CellBytes + packedBytes,
		WireBytesPerSecond: cells*(p.Costs.CellBytes+p.Costs.CellWireBytes) + packedBytes + packedRows*p.Costs.RowWireBytes,
		ReadRowsPerSecond:  packedRows}
	m.PeakRowsPerSecond, m.PeakBytesPerSecond = m.RowsPerSecond, m.BytesPerSecond
	m.Storage.OpenBytes = cells * openHours * 3600 * p.Costs.CellRestBytes
	return m
}

func (p *Plan) rawDays() float64 { return p.Load.Raw.Hours() / 24 }

// complete adds what both modes have in common.
func (p *Plan) complete(m *Mode) {
	rows, bytes := p.beside()
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
	s.CatalogueBytes = perDay * p.Costs.CatalogueBytes * (longest + gcDays)
	s.TotalBytes = s.SampleBytes + s.OpenBytes + s.HoursBytes + s.DaysBytes + s.CatalogueBytes

	n, l := &m.Nodes, &p.Limits
	n.Writing = l.writeNodes(m.PeakRowsPerSecond, m.PeakBytesPerSecond)
	n.Reading = l.nodes(m.ReadRowsPerSecond, l.RowReadsPerSecond)
	if p.Load.Hours > 0 {
		// A day's rollups read all samples that are kept, once a day.
		n.Reading += l.nodes(s.SampleBytes/day.Seconds(), l.ScanBytesPerSecond)
	}
	n.Storing = l.nodes(s.TotalBytes, l.StorageBytes)
	busy := l.nodes(max(m.PeakRowsPerSecond, m.PeakBytesPerSecond/l.RowBytes)/l.RowWritesPerSecond+
		m.ReadRowsPerSecond/l.RowReadsPerSecond+p.scanShare(s), 1)
	n.Cluster = max(1, busy, n.Storing)
	n.Total = n.Cluster * p.Load.Replicas
}

// scanShare is the part of one node that reads samples for rollups.
func (p *Plan) scanShare(s *Storage) float64 {
	if p.Load.Hours == 0 {
		return 0
	}
	return s.SampleBytes / day.Seconds() / p.Limits.ScanBytesPerSecond
}
