package verify

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"halite/loadtest/acked"
	"halite/loadtest/client"
	"halite/loadtest/fleet"
	"halite/loadtest/load"
)

// windowSamples is the approximate number of samples that one read asks for.
const windowSamples = 500_000

// Verifier makes the samples of the fleet again and compares them with the samples that the server returns.
type Verifier struct {
	Fleet    *fleet.Fleet
	Timeline *load.Timeline
	Disorder load.Disorder
	Acked    *acked.Set
	Querier  *client.Querier
	Share    float64 // of the units that are read back, 0 to 1

	unitsDone    atomic.Int64
	noRemoteRead atomic.Bool // the server refused remote read
}

// UnitsDone returns the number of units read back so far.
func (v *Verifier) UnitsDone() int64 { return v.unitsDone.Load() }

// Run reads samples back with the given number of concurrent requests, until it is done, a read fails or ctx ends.
func (v *Verifier) Run(ctx context.Context, concurrency int) *Result {
	units := v.units()
	total := &Result{}
	var mu sync.Mutex
	var next atomic.Int64
	var workers sync.WaitGroup
	for range max(concurrency, 1) {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(units) || ctx.Err() != nil {
					return
				}
				part, err := v.unit(ctx, units[i])
				mu.Lock()
				total.add(part)
				if err != nil && total.Error == "" {
					total.Error = err.Error()
				}
				stop := total.Error != ""
				mu.Unlock()
				v.unitsDone.Add(1)
				if stop {
					return
				}
			}
		})
	}
	workers.Wait()
	if err := ctx.Err(); err != nil && total.Error == "" {
		total.Error = "interrupted"
	}
	total.ReadBy = "remote read"
	if v.noRemoteRead.Load() {
		total.ReadBy = "range selectors"
	}
	return total
}

// units chooses the units that are read back.
func (v *Verifier) units() []int {
	var units []int
	for u := range v.Fleet.Units() {
		if fleet.Unit01(fleet.Mix(v.Disorder.Seed(), uint64(u), 99)) < v.Share {
			units = append(units, u)
		}
	}
	return units
}

// expected holds the samples that one series of a unit should have in a window.
type expected struct {
	series fleet.Series
	slot   int
	values []float64 // one for each step, beginning with the step first
	first  int
}

// unit checks one unit, window by window. A window ends when the unit is replaced, because its series then change.
func (v *Verifier) unit(ctx context.Context, number int) (*Result, error) {
	total := &Result{}
	unit, firstSlot := v.Fleet.Unit(number), v.Fleet.SlotsBefore(number)
	var window []expected
	check := func() error {
		if len(window) == 0 || len(window[0].values) == 0 {
			return nil
		}
		part, err := v.window(ctx, number, unit.Generation(), firstSlot, window)
		total.add(part)
		return err
	}
	for step := range v.Timeline.StepsBegun() {
		if window != nil && v.Fleet.Renewed(number, step) {
			if err := check(); err != nil {
				return total, err
			}
			window = nil
		}
		values, _ := unit.Step()
		if window == nil || len(window)*len(window[0].values) >= windowSamples {
			if err := check(); err != nil {
				return total, err
			}
			window = newWindow(unit.Series(), firstSlot, step)
		}
		for i, value := range values {
			window[i].values = append(window[i].values, value)
		}
	}
	return total, check()
}

func newWindow(names []fleet.Series, firstSlot, step int) []expected {
	window := make([]expected, len(names))
	for i := range window {
		window[i] = expected{series: names[i], slot: firstSlot + i, first: step}
	}
	return window
}

// window reads the series of a window and compares their samples.
func (v *Verifier) window(ctx context.Context, unit, gen, firstSlot int, window []expected) (*Result, error) {
	part := &Result{}
	last := window[0].first + len(window[0].values) - 1
	fromMs, toMs := v.Timeline.TsMs(firstSlot, window[0].first), v.Timeline.TsMs(firstSlot, last)
	found, err := v.readWithRetries(ctx, unit, gen, fromMs, toMs)
	if err != nil {
		return part, fmt.Errorf("reading %s back: %w", v.Fleet.Instance(unit, gen), err)
	}
	for i := range window {
		key := string(load.AppendSeriesLabels(nil, window[i].series))
		v.compare(part, &window[i], firstSlot, found[key])
		delete(found, key)
	}
	for _, points := range found {
		part.Extra += int64(len(points))
	}
	return part, nil
}
