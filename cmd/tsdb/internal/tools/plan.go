package tools

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"

	"halite/cmd/tsdb/internal/program"
	"halite/loadtest/plan"
)

// planConfig holds the flags of `tsdb plan`.
type planConfig struct {
	series           string
	mode             string
	output           program.Output
	simulate         bool
	load             plan.Load
	raw, hours, days model.Duration
	limits           plan.Limits
	prices           plan.Prices
	simulation       plan.Simulation
}

// AddPlan declares `tsdb plan`.
func AddPlan(app *kingpin.Application) program.Commands {
	cmd := app.Command("plan", "Estimate the rows, bytes and nodes that a load needs in Bigtable; see docs/bigtable.md.")
	c := &planConfig{raw: model.Duration(30 * 24 * time.Hour), limits: plan.ServiceLimits()}
	cmd.Flag("series", "Number of series at any one time. The suffixes k, M and G mean thousand, million and billion.").
		Required().StringVar(&c.series)
	cmd.Flag("interval", "Time between samples of a series.").Default("15s").DurationVar(&c.load.Interval)
	cmd.Flag("retention", "Retention of samples.").Default("30d").SetValue(&c.raw)
	cmd.Flag("retention.hours", "Retention of rollups of hours. 0 means no rollups.").Default("0s").SetValue(&c.hours)
	cmd.Flag("retention.days", "Retention of rollups of days. 0 means no rollups.").Default("0s").SetValue(&c.days)
	cmd.Flag("mode", "Write mode to plan: buffered, direct or both.").Default("both").
		EnumVar(&c.mode, "both", plan.Buffered, plan.Direct)
	cmd.Flag("churn", "Percentage of the series that new ones replace each day.").Default("0").Float64Var(&c.load.ChurnPercent)
	cmd.Flag("replicas", "Number of clusters. Each holds all data.").Default("1").IntVar(&c.load.Replicas)
	cmd.Flag("flush-window", "Time within which the rows of a closed hour are written to Bigtable.").Default("30m").
		DurationVar(&c.load.FlushWindow)
	cmd.Flag("read-rows", "Rows per second that queries read. A row is one series and hour.").Default("0").
		Float64Var(&c.load.ReadRowsPerSecond)
	cmd.Flag("node.storage-bytes", "Bytes that a node stores. Default: the service's limit for SSD nodes.").Default("5e12").
		Float64Var(&c.limits.StorageBytes)
	cmd.Flag("node.utilization", "Share of a node's capacity to use, up to 1.").Default("0.7").
		Float64Var(&c.limits.Utilization)
	cmd.Flag("price.node-hour", "Price of a node for an hour. Without prices, no cost is printed.").Default("0").
		Float64Var(&c.prices.NodeHour)
	cmd.Flag("price.gb-month", "Price of 10^9 stored bytes for a month.").Default("0").Float64Var(&c.prices.GBMonth)
	cmd.Flag("simulate", "Also simulate how metrics sized by Zipf's law load the nodes.").BoolVar(&c.simulate)
	s := &c.simulation
	cmd.Flag("simulate.nodes", "Number of nodes. 0 uses the nodes of mode buffered, at least 3.").Default("0").IntVar(&s.Nodes)
	cmd.Flag("simulate.metrics", "Number of metrics.").Default("1000").IntVar(&s.Metrics)
	cmd.Flag("simulate.exponent", "Exponent of Zipf's law.").Default("1").Float64Var(&s.Exponent)
	cmd.Flag("simulate.salts", "Number of salts; may be repeated. Default: 1, 4, 16 and 64.").IntsVar(&s.Salts)
	cmd.Flag("seed", "Seed of all random choices.").Default("1").Uint64Var(&s.Seed)
	c.output.AddFlag(cmd)
	return program.Commands{cmd.FullCommand(): c.run}
}

// planReport is the JSON that `tsdb plan --output=json` prints.
type planReport struct {
	plan.Plan
	Simulation *plan.Simulation `json:"simulation,omitempty"`
	Balances   []plan.Balance   `json:"balances,omitempty"`
}

// run computes the plan and prints it.
func (c *planConfig) run(_ context.Context, w io.Writer) error {
	var err error
	if c.load.Series, err = parseCount(c.series); err != nil {
		return fmt.Errorf("--series: %w", err)
	}
	c.load.Raw, c.load.Hours, c.load.Days = time.Duration(c.raw), time.Duration(c.hours), time.Duration(c.days)
	var r planReport
	if r.Plan, err = plan.Make(c.load, plan.MeasuredCosts(), c.limits, c.prices); err != nil {
		return err
	}
	if c.simulate {
		c.simulation.Series, c.simulation.TabletSeries = c.load.Series, r.TabletSeries
		if c.simulation.Nodes == 0 {
			c.simulation.Nodes = max(3, r.Modes[0].Nodes.Cluster)
		}
		if r.Balances, err = plan.Simulate(c.simulation); err != nil {
			return err
		}
		r.Simulation = &c.simulation
	}
	if c.mode != "both" {
		r.Modes = r.OnlyMode(c.mode)
	}
	return c.output.Print(w, r, func(w io.Writer) error {
		if err := r.WriteText(w); err != nil || !c.simulate {
			return err
		}
		fmt.Fprintln(w)
		return plan.WriteBalances(w, c.simulation, r.Balances)
	})
}

// parseCount parses a number with an optional suffix k, M or G.
func parseCount(text string) (int64, error) {
	scale := 1.0
	digits := text
	for unit, s := range map[string]float64{"k": 1e3, "M": 1e6, "G": 1e9} {
		if rest, found := strings.CutSuffix(text, unit); found {
			digits, scale = rest, s
		}
	}
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(v*scale >= 1 && v*scale <= 1e15) {
		return 0, fmt.Errorf("%q is not a number from 1 to 1e15, such as 250000, 100k or 1.5M", text)
	}
	return int64(math.Round(v * scale)), nil
}
