package verify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sort"

	"github.com/prometheus/prometheus/prompb"

	"halite/keyschema"
	"halite/loadtest/client"
	"halite/loadtest/fleet"
	"halite/loadtest/load"
)

// readAttemptsMax bounds the attempts of one read.
const readAttemptsMax = 5

// readWithRetries reads the samples of a unit. It retries if the server is overloaded or the connection breaks.
func (v *Verifier) readWithRetries(ctx context.Context, unit, gen int, fromMs, toMs int64) (map[string][]client.Point, error) {
	wait := client.RetryPauseMin
	for attempt := 1; ; attempt++ {
		found, err := v.read(ctx, unit, gen, fromMs, toMs)
		var status *client.StatusError
		if err == nil || attempt == readAttemptsMax || ctx.Err() != nil || errors.As(err, &status) && !overloaded(status.Code) {
			return found, err
		}
		client.Sleep(ctx, wait)
		wait = min(4*wait, client.RetryPauseMax)
	}
}

func overloaded(code int) bool {
	return code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests
}

// read returns the samples of a unit by the encoded labels of their series. It uses remote read. If the server
// refuses remote read, it permanently changes to range selectors.
func (v *Verifier) read(ctx context.Context, unit, gen int, fromMs, toMs int64) (map[string][]client.Point, error) {
	instance, job := v.Fleet.Instance(unit, gen), v.Fleet.Options().Job
	if !v.noRemoteRead.Load() {
		found, err := v.readRemote(ctx, instance, job, fromMs, toMs)
		var status *client.StatusError
		if err == nil || !errors.As(err, &status) || overloaded(status.Code) {
			return found, err
		}
		v.noRemoteRead.Store(true)
	}
	selector := fmt.Sprintf("{instance=%s,job=%s}", client.QuoteLabel(instance), client.QuoteLabel(job))
	list, err := v.Querier.RawSamples(ctx, selector, fromMs, toMs)
	if err != nil {
		return nil, err
	}
	found := make(map[string][]client.Point, len(list))
	for _, r := range list {
		s := fleet.Series{Metric: r.Metric[load.MetricLabel]}
		for name, value := range r.Metric {
			if name != load.MetricLabel {
				s.Tags = append(s.Tags, keyschema.Tag{Name: name, Value: value})
			}
		}
		sort.Slice(s.Tags, func(i, j int) bool { return s.Tags[i].Name < s.Tags[j].Name })
		found[string(load.AppendSeriesLabels(nil, s))] = r.Values
	}
	return found, nil
}

func (v *Verifier) readRemote(ctx context.Context, instance, job string, fromMs, toMs int64) (map[string][]client.Point, error) {
	labels := []prompb.Label{{Name: "instance", Value: instance}, {Name: "job", Value: job}}
	result, err := v.Querier.RemoteRead(ctx, labels, fromMs, toMs)
	if err != nil {
		return nil, err
	}
	found := make(map[string][]client.Point, len(result.Timeseries))
	var key []byte
	for _, ts := range result.Timeseries {
		key = key[:0]
		for _, l := range ts.Labels {
			key = load.AppendLabel(key, l.Name, l.Value)
		}
		points := make([]client.Point, len(ts.Samples))
		for i, s := range ts.Samples {
			points[i] = client.Point{TsMs: s.Timestamp, Value: s.Value}
		}
		found[string(key)] = points
	}
	return found, nil
}
