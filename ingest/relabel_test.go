package ingest

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"halite/ingest/batch"
	"halite/ingest/ingesttest"
	"halite/ingest/remotewrite"
	"halite/storage/storagetest/seeds"
)

// rules parses relabelling rules in Prometheus's syntax.
func rules(t testing.TB, text string) (out []*relabel.Config) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal([]byte(text), &out))
	for _, c := range out {
		require.NoError(t, c.Validate(model.UTF8Validation))
	}
	return out
}

func (r *rig) relabelBy(text string) {
	r.t.Helper()
	require.NoError(r.t, r.SetRelabelling(context.Background(), rules(r.t, text), nil))
}

// protocols are the ways into the writer.
func protocols(t testing.TB, r *rig) map[string]func(all []prompb.TimeSeries) (Result, error) {
	ctx := context.Background()
	return map[string]func(all []prompb.TimeSeries) (Result, error){
		"1.0": func(all []prompb.TimeSeries) (Result, error) {
			return r.Write(ctx, Input{Body: body(t, &prompb.WriteRequest{Timeseries: all})})
		},
		"2.0": func(all []prompb.TimeSeries) (Result, error) {
			return r.Write(ctx, Input{Body: bodyV2(t, toV2(all)), Version: V2})
		},
		"batch": func(all []prompb.TimeSeries) (Result, error) {
			return r.Write(ctx, Input{Parse: func(b *batch.Batch) error {
				b.SetLabels(func(dst, key []byte) ([]byte, error) {
					ls, err := parser.NewParser(parser.Options{}).ParseMetric(string(key))
					return remotewrite.AppendFields(dst, ls), err
				})
				for n := range all {
					if err := b.Begin([]byte(labelsOf(all[n]).String())); err != nil {
						return err
					}
					for _, s := range all[n].Samples {
						b.Sample(remotewrite.Sample{TsMs: s.Timestamp, Value: s.Value})
					}
				}
				return nil
			}, SizeBytes: 0})

		},
	}
}

// TestRelabellingByAnyProtocol: each protocol keeps, changes and drops the same series, new and known, in any order.
func TestRelabellingByAnyProtocol(t *testing.T) {
	const count = 300
	for _, protocol := range []string{"1.0", "2.0", "batch"} {
		t.Run(protocol, func(t *testing.T) {
			r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
			defer r.close()
			r.relabelBy(`
- {source_labels: [n], regex: ".*7", action: drop}
- {regex: pod, action: labeldrop}
- {source_labels: [__name__], regex: "(.*)_old", target_label: __name__, replacement: "${1}_new"}
- {source_labels: [n], regex: ".*3", action: drop}
`)
			rng := seeds.Rand(t, 1)
			write := protocols(t, r)[protocol]
			order := rng.Perm(count)
			want := make([]column, count)
			const rounds = 5
			for round := range rounds {
				if round == 3 { // the order that was learned does not hold
					rng.Shuffle(count, func(i, j int) { order[i], order[j] = order[j], order[i] })
				}
				var all []prompb.TimeSeries
				for _, n := range order {
					at, value := startMs+int64(round), float64(n)
					all = append(all, series([]string{"__name__", "m_old", "n", fmt.Sprint(n), "pod", "p"}, sample(at, value)))
					if n%10 != 7 && n%10 != 3 {
						if want[n] == nil {
							want[n] = column{}
						}
						want[n][at] = math.Float64bits(value)
					}
				}
				result, err := write(all)
				require.NoError(t, err)
				require.Equal(t, Counts{Samples: count / 5}, result.Dropped)
				require.Equal(t, count/5*4, result.Accepted)
				require.Zero(t, result.Rejected)
			}
			for n := range want {
				if want[n] != nil {
					r.requireSeries(labels.FromStrings("__name__", "m_new", "n", fmt.Sprint(n)), want[n])
				}
			}
			require.Equal(t, count/5*4, r.SeriesCount())
			for rule, dropped := range []float64{rounds * count / 10, 0, 0, rounds * count / 10} {
				require.Equal(t, dropped, r.counter("tsdb_ingest_relabel_dropped_total", "rule", strconv.Itoa(rule)), rule)
			}
		})
	}
}

// TestRelabellingEqualsPrometheus compares what is stored with what Prometheus's library makes of each series, under rules that
// change. Series that rules join share a column.
func TestRelabellingEqualsPrometheus(t *testing.T) {
	rng := seeds.Rand(t, 1)
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), func(o *Options) { o.Limits.RelabelledSeriesMax = 40 })
	sets := []string{
		"", "[{regex: a, action: labeldrop}]",
		"[{source_labels: [a, b], regex: '1;(.*)', target_label: c, replacement: '$1'}]",
		"[{source_labels: [a], regex: '1', action: keep}, {source_labels: [b], target_label: a}]",
		"[{source_labels: [a], modulus: 3, target_label: c, action: hashmod}, {source_labels: [c], regex: '1', action: drop}]",
		"[{regex: '(a|b)', replacement: 'x_$1', action: labelmap}, {regex: 'a|b', action: labeldrop}]",
		"[{source_labels: [b], target_label: a, action: dropequal}]",
	}
	want := map[string]column{}
	kept := map[string]labels.Labels{}
	for round := range 60 {
		configs := rules(t, sets[rng.IntN(len(sets))])
		require.NoError(t, r.SetRelabelling(context.Background(), configs, nil))
		var all []prompb.TimeSeries
		dropped := 0
		for n := range rng.IntN(60) {
			pairs := []string{"__name__", fmt.Sprint("m", rng.IntN(3))}
			for _, name := range []string{"a", "b", "c"} {
				pairs = append(pairs, name, []string{"", "0", "1", "2"}[rng.IntN(4)])
			}
			ts := series(pairs, sample(startMs+int64(round), rng.Float64()+1))
			all = append(all, ts)
			b := labels.NewBuilder(labels.FromStrings(pairs...))
			if !relabel.ProcessBuilder(b, configs...) {
				dropped++
				continue
			}
			ls := b.Labels()
			if kept[ls.String()] = ls; want[ls.String()] == nil {
				want[ls.String()] = column{}
			}
			want[ls.String()][startMs+int64(round)] = math.Float64bits(all[n].Samples[0].Value)
		}
		result, err := protocols(t, r)[[]string{"1.0", "2.0", "batch"}[rng.IntN(3)]](all)
		require.NoError(t, err)
		require.Equal(t, dropped, result.Dropped.Samples)
		require.Equal(t, len(all)-dropped, result.Accepted)
		if rng.IntN(4) == 0 {
			require.NoError(t, r.CollectSeries(context.Background(), 0, func(uint32) {}))
		}
	}
	require.Equal(t, len(kept), r.SeriesCount())
	for text, ls := range kept {
		r.requireSeries(ls, want[text])
	}
	r.close()
}

// TestRelabelledSeriesIsRemoved: a relabelled series that was removed from memory returns when the same labels
// arrive.
func TestRelabelledSeriesIsRemoved(t *testing.T) {
	c := ingesttest.NewClock()
	r := openRig(t, vfs.NewMem(), c, nil)
	defer r.close()
	r.relabelBy("[{regex: pod, action: labeldrop}]")
	sent := []string{"__name__", "m", "pod", "p"}
	r.write(series(sent, sample(startMs, 1)))
	c.Advance(72 * time.Hour)
	r.flush()
	require.NoError(t, r.maintain(context.Background()))
	require.Zero(t, r.SeriesCount())
	require.Zero(t, r.rules.Load().Known.Len())
	at := c.Now().UnixMilli()
	r.write(series(sent, sample(at, 2)))
	r.requireSeries(labels.FromStrings("__name__", "m"), column{startMs: math.Float64bits(1), at: math.Float64bits(2)})
}

// TestRulesChangeBetweenRequests: while rules change, each request follows one set of rules for all its series.
func TestRulesChangeBetweenRequests(t *testing.T) {
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	defer r.close()
	const count = 50
	var all []prompb.TimeSeries
	for n := range count {
		all = append(all, series([]string{"__name__", "m", "n", fmt.Sprint(n)}, sample(startMs, 1)))
	}
	sent := body(t, &prompb.WriteRequest{Timeseries: all})
	drop := rules(t, "[{source_labels: [__name__], regex: m, action: drop}]")
	var writers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				result, err := r.Write(context.Background(), Input{Body: sent})
				if err != nil || result.Accepted+result.Dropped.Samples != count || result.Accepted%count != 0 {
					t.Errorf("%+v: %v", result, err)
					return
				}
			}
		})
	}
	for n := range 200 {
		require.NoError(t, r.SetRelabelling(context.Background(), [][]*relabel.Config{drop, nil}[n%2], nil))
	}
	close(stop)
	writers.Wait()
}

// BenchmarkRelabelling is BenchmarkWriteRemote with rules. Known series cost the same without rules, with rules that change
// each series, and with rules that drop it.
func BenchmarkRelabelling(b *testing.B) {
	for name, text := range map[string]string{
		"none": "", "change": "[{target_label: region, replacement: eu}, {regex: device, action: labeldrop},\n" +
			" {source_labels: [job], regex: '(.*)-(.*)', target_label: team, replacement: '$1'}]",
		"drop": "[{source_labels: [job], regex: 'x.*', action: drop}, {source_labels: [job], regex: 'node-.*', action: drop}]",
	} {
		b.Run(name, func(b *testing.B) {
			r := benchRig(b, vfs.NewMem(), ingesttest.NewClock())
			r.relabelBy(text)
			bs := newBodies(b, 10_000)
			var buf []byte
			write := func(n int, tsMs int64) {
				buf = bs.stamp(buf, n, tsMs)
				b.StartTimer()
				_, err := r.Write(context.Background(), Input{Body: buf})
				b.StopTimer()
				require.NoError(b, err)
			}
			for n := range bs.plain {
				write(n, startMs)
			}
			b.ResetTimer()
			b.StopTimer()
			for n := range b.N {
				round := 1 + n/len(bs.plain)
				if n%len(bs.plain) == 0 && round%240 == 0 {
					r.flush()
				}
				write(n%len(bs.plain), startMs+int64(round)*15_000)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2000, "ns/sample")
			r.close()
		})
	}
}
