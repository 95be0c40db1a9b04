package wal

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/ingest/wal/record"
)

const benchSamples = 2000

// benchPayload is a batch as one scrape gives it: consecutive series, one timestamp.
func benchPayload() []byte { return record.AppendSamples(nil, benchBatch()) }

func benchBatch() []record.Sample {
	samples := make([]record.Sample, benchSamples)
	for i := range samples {
		samples[i] = record.Sample{Ref: uint32(100_000 + i), TsMs: 1_700_000_000_000 + int64(i%3), Value: float64(i) * 1.5}
	}
	return samples
}

// perSample reports the time of one of the samples that each iteration handles.
func perSample(b *testing.B, samplesEach int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*samplesEach), "ns/sample")
}

// BenchmarkAppend reports the time under the log's lock, without the disk.
func BenchmarkAppend(b *testing.B) {
	l, _, _ := mustOpen(b, Options{Dir: "wal", FS: discardFS{vfs.NewMem()}, BlockWhenFull: true})
	payload := benchPayload()
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Append(record.KindSamples, payload); err != nil {
			b.Fatal(err)
		}
	}
	perSample(b, benchSamples)
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkWait is Append and Wait on the disk under the temporary directory, by concurrent writers.
func BenchmarkWait(b *testing.B) {
	for _, delay := range []time.Duration{-1, CommitDelayDefault, 10 * time.Millisecond} {
		for _, writers := range []int{1, 2, 8, 64} {
			b.Run(fmt.Sprintf("delay=%v/writers=%d", max(0, delay), writers), func(b *testing.B) {
				l, _, _ := mustOpen(b, Options{Dir: b.TempDir(), CommitDelay: delay})
				payload := benchPayload()
				b.ResetTimer()
				var wg sync.WaitGroup
				for w := range writers {
					wg.Go(func() {
						for i := w; i < b.N; i += writers {
							pos, err := l.Append(record.KindSamples, payload)
							if err == nil {
								err = l.Wait(context.Background(), pos)
							}
							if err != nil {
								b.Error(err)
							}
						}
					})
				}
				wg.Wait()
				perSample(b, benchSamples)
				b.ReportMetric(float64(b.N)/float64(l.Stats().Commits), "frames/commit")
				b.ReportMetric(float64(l.Stats().Commits)/b.Elapsed().Seconds(), "commits/s")
				b.StopTimer()
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// BenchmarkReplay reads and decodes four million samples from the disk (or its cache).
func BenchmarkReplay(b *testing.B) {
	const batches = 2000
	dir := b.TempDir()
	l, _, _ := mustOpen(b, Options{Dir: dir, BlockWhenFull: true})
	payload := benchPayload()
	for range batches {
		if _, err := l.Append(record.KindSamples, payload); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(batches * len(payload)))
	var sum float64
	for b.Loop() {
		l, err := Open(Options{Dir: dir})
		if err == nil {
			_, err = l.Replay(func(_ byte, payload []byte, _ Position) error {
				it := record.ReadSamples(payload)
				for it.Next() {
					sum += it.Value
				}
				return it.Err()
			}, nil)
		}
		if err == nil {
			err = l.Close()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	perSample(b, batches*benchSamples)
}

// discardFS keeps files but forgets what is appended to them.
type discardFS struct{ vfs.FS }

func (fs discardFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, category)
	return discardFile{f}, err
}

type discardFile struct{ vfs.File }

func (discardFile) Write(b []byte) (int, error) { return len(b), nil }
