package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Simulation describes a load whose distribution over nodes is simulated. Zero fields take the default stated in their
// comment.
type Simulation struct {
	// Series is the number of series of all metrics. Required. The metric of rank r has 1/r^Exponent of the series of the
	// first metric. Default 1,000 metrics, exponent 1.
	Series   int64   `json:"series"`
	Metrics  int     `json:"metrics"`
	Exponent float64 `json:"exponent"`
	// Salts are the numbers of salts to compare. Default 1, 4, 16, 64.
	Salts []int `json:"salts"`
	// Nodes is the number of nodes. Default 10.
	Nodes int `json:"nodes"`
	// TabletSeries is the number of series at which a tablet splits. Default 50,000.
	TabletSeries float64 `json:"tablet_series"`
	// Seed is the seed of all random choices. Default 1.
	Seed uint64 `json:"seed"`
}

const (
	simulationMetricsMax = 1_000_000
	simulationSaltsMax   = 1000
	simulationNodesMax   = 10_000
	simulationRangesMax  = 20_000_000
)

func (s Simulation) withDefaults() Simulation {
	s.Metrics, s.Exponent, s.Nodes = cmp.Or(s.Metrics, 1000), cmp.Or(s.Exponent, 1), cmp.Or(s.Nodes, 10)
	s.TabletSeries, s.Seed = cmp.Or(s.TabletSeries, 50_000), cmp.Or(s.Seed, 1)
	if len(s.Salts) == 0 {
		s.Salts = []int{1, 4, 16, 64}
	}
	return s
}

// Validate reports all errors at once.
func (s Simulation) Validate() error {
	var errs []error
	check := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	s = s.withDefaults()
	check(s.Series < 1 || s.Series > seriesMax, "series: %d is not in 1…%d", s.Series, int64(seriesMax))
	check(s.Metrics < 1 || s.Metrics > simulationMetricsMax, "metrics: %d is not in 1…%d", s.Metrics, simulationMetricsMax)
	check(int64(s.Metrics) > s.Series, "metrics: %d metrics cannot share %d series", s.Metrics, s.Series)
	check(!(s.Exponent >= 0 && s.Exponent <= 4), "exponent: %g is not in 0…4", s.Exponent)
	check(s.Nodes < 1 || s.Nodes > simulationNodesMax, "nodes: %d is not in 1…%d", s.Nodes, simulationNodesMax)
	check(!(s.TabletSeries >= 1), "series of a tablet: %g is below 1", s.TabletSeries)
	check(float64(s.Series)/s.TabletSeries > simulationRangesMax, "more than %d tablets", simulationRangesMax)
	for _, n := range s.Salts {
		check(n < 1 || n > simulationSaltsMax, "salts: %d is not in 1…%d", n, simulationSaltsMax)
		check(n*s.Metrics > simulationRangesMax, "%d salts of %d metrics are more than %d ranges", n, s.Metrics, simulationRangesMax)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("simulation: %w", err)
	}
	return nil
}

// Balance is the result of a simulation for one number of salts.
type Balance struct {
	Salts int `json:"salts"`
	// LargestShare is the share of all series in the largest range of one metric and salt.
	LargestShare float64 `json:"largest_share"`
	// Unsplit is the load of nodes before any split: each range is one tablet.
	Unsplit Placement `json:"unsplit"`
	// Split is the load after all ranges with more than TabletSeries series have split.
	Split Placement `json:"split"`
	// Tablets is the number of tablets after all splits.
	Tablets int `json:"tablets"`
	// QueryNodes is the number of nodes with series of the largest metric, after all splits and placed by load.
	QueryNodes int `json:"query_nodes"`
}

// Placement is the load of the fullest node over the mean: for tablets placed at random, and for tablets placed by their
// load. After some time, the service places tablets by load.
type Placement struct {
	RandomMaxOverMean   float64 `json:"random_max_over_mean"`
	BalancedMaxOverMean float64 `json:"balanced_max_over_mean"`
}

// tablet is a range of keys and its load.
type tablet struct {
	metric int // rank, from 0
	series float64
}

// Simulate returns the balance for each number of salts. The load of a node is its number of series. Each series has one row
// per hour, and the hour is the last part of the key. So the writes to a key range depend only on its series.
func Simulate(s Simulation) ([]Balance, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	s = s.withDefaults()
	sizes := zipfSizes(s.Series, s.Metrics, s.Exponent)
	var out []Balance
	for _, salts := range s.Salts {
		rng := rand.New(rand.NewPCG(s.Seed, uint64(salts)))
		out = append(out, s.balance(rng, sizes, salts))
	}
	return out, nil
}

func (s *Simulation) balance(rng *rand.Rand, sizes []int64, salts int) Balance {
	b := Balance{Salts: salts}
	var unsplit, split []tablet
	for _, metric := range rng.Perm(len(sizes)) { // ordered by name, which is independent of the size
		n := sizes[metric]
		for left := salts; left > 0; left-- {
			x := binomial(rng, n, 1/float64(left))
			n -= x
			if x == 0 {
				continue
			}
			r := tablet{metric, float64(x)}
			b.LargestShare = max(b.LargestShare, r.series/float64(s.Series))
			unsplit = append(unsplit, r)
			// A tablet that is too large splits in half, and its halves split in the same way.
			parts := math.Exp2(max(0, math.Ceil(math.Log2(r.series/s.TabletSeries))))
			for range int(parts) {
				split = append(split, tablet{metric, r.series / parts})
			}
		}
	}
	split = merged(split, s.TabletSeries)
	b.Tablets = len(split)
	b.Unsplit, _ = s.assign(rng, unsplit)
	b.Split, b.QueryNodes = s.assign(rng, split)
	return b
}

// merged joins adjacent tablets that together fill at most half a tablet, as the service does. It keeps the key order.
func merged(tablets []tablet, full float64) []tablet {
	out := tablets[:0:0]
	for _, t := range tablets {
		if n := len(out); n > 0 && out[n-1].series+t.series <= full/2 {
			out[n-1].series += t.series
			continue
		}
		out = append(out, t)
	}
	return out
}

// assign places tablets on nodes, first at random and then by load. largest is the number of nodes with tablets of the
// largest metric in the placement by load.
func (s *Simulation) assign(rng *rand.Rand, tablets []tablet) (p Placement, largest int) {
	random, balanced := make([]float64, s.Nodes), make([]float64, s.Nodes)
	for _, t := range tablets {
		random[rng.IntN(s.Nodes)] += t.series
	}
	byLoad := slices.Clone(tablets)
	slices.SortStableFunc(byLoad, func(a, b tablet) int { return cmp.Compare(b.series, a.series) })
	holds := make([]bool, s.Nodes)
	heap := newNodeHeap(balanced)
	for _, t := range byLoad {
		node := heap.least()
		balanced[node] += t.series
		holds[node] = holds[node] || t.metric == 0
		heap.sink()
	}
	for _, h := range holds {
		if h {
			largest++
		}
	}
	mean := float64(s.Series) / float64(s.Nodes)
	return Placement{slices.Max(random) / mean, slices.Max(balanced) / mean}, largest
}

// nodeHeap is a binary heap of nodes. The node with the smallest load is first.
type nodeHeap struct {
	loads []float64
	nodes []int
}

func newNodeHeap(loads []float64) *nodeHeap {
	h := &nodeHeap{loads: loads, nodes: make([]int, len(loads))}
	for i := range h.nodes {
		h.nodes[i] = i
	}
	return h
}

func (h *nodeHeap) least() int { return h.nodes[0] }

// sink restores the order after the load of the first node has grown.
func (h *nodeHeap) sink() {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(h.nodes) {
			return
		}
		if right := child + 1; right < len(h.nodes) && h.loads[h.nodes[right]] < h.loads[h.nodes[child]] {
			child = right
		}
		if h.loads[h.nodes[i]] <= h.loads[h.nodes[child]] {
			return
		}
		h.nodes[i], h.nodes[child] = h.nodes[child], h.nodes[i]
		i = child
	}
}

// zipfSizes divides series among metrics, the largest first. Each metric gets at least one.
func zipfSizes(series int64, metrics int, exponent float64) []int64 {
	weights, sum := make([]float64, metrics), 0.0
	for i := range weights {
		weights[i] = math.Pow(float64(i+1), -exponent)
		sum += weights[i]
	}
	// Each metric gets one series. The rest is divided by weight; the first metric gets the remainder of the rounding.
	rest := series - int64(metrics)
	sizes, given := make([]int64, metrics), int64(0)
	for i := range sizes {
		share := int64(float64(rest) * weights[i] / sum)
		sizes[i] = 1 + share
		given += share
	}
	sizes[0] += rest - given
	return sizes
}

// exactTrialsMax is the number of trials up to which binomial simulates each trial.
const exactTrialsMax = 200

// binomial draws the number of successes in n trials with probability p. For many trials, it uses the normal approximation.
func binomial(rng *rand.Rand, n int64, p float64) int64 {
	switch {
	case n <= 0:
		return 0
	case p >= 1:
		return n
	case n <= exactTrialsMax:
		hits := int64(0)
		for range n {
			if rng.Float64() < p {
				hits++
			}
		}
		return hits
	}
	x := math.Round(float64(n)*p + rng.NormFloat64()*math.Sqrt(float64(n)*p*(1-p)))
	return int64(min(max(x, 0), float64(n)))
}
