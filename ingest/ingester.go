package ingest

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"

	"halite/ingest/wal"
	"halite/storage/index"
)

// Sample is one value of one series.
type Sample struct {
	// Labels include __name__.
	Labels labels.Labels
	// TsMs is in milliseconds since 1970.
	TsMs  int64
	Value float64
}

// Result says what became of a request's samples.
type Result struct {
	// Accepted samples are durable; Rejected ones were not stored.
	Accepted, Rejected int
	// Reasons counts the rejected samples by reason; nil if there are none.
	Reasons map[string]int
	// First describes the first rejection: series and reason.
	First string
}

// Metadata describes a metric.
type Metadata struct{ Type, Help, Unit string }

// Stats describes the ingester at one moment.
type Stats struct {
	// Series is the number of series with a number, Rows and Samples what the head holds unflushed.
	Series, Rows, Samples int
	// HeadBytes is the memory in use for unflushed samples.
	HeadBytes int64
	// MinTimeMs and MaxTimeMs bound the unflushed samples to whole hours; both 0 if there are none.
	MinTimeMs, MaxTimeMs int64
	// WAL describes the log.
	WAL wal.Stats
}

// Ingester takes samples in. See the package comment.
type Ingester struct {
	opts Options
}

// Open replays the log into the head and starts the background jobs. A damaged log is a *wal.DamageError unless
// Options.AcceptWALLoss.
func Open(ctx context.Context, opts Options) (*Ingester, error) { panic("not yet") }

// WriteRemote stores a remote write 1.0 body (snappy-compressed protobuf) and returns when it is durable. Series that
// break a rule are left out and listed in the Result; the rest is stored. The error is a *BadRequestError, ErrTooLarge,
// an *OverloadError, ErrClosed or something unexpected; nothing was acknowledged then.
func (i *Ingester) WriteRemote(ctx context.Context, body []byte) (Result, error) { panic("not yet") }

// Write stores samples by the same path and rules as WriteRemote.
func (i *Ingester) Write(ctx context.Context, samples []Sample) (Result, error) { panic("not yet") }

// AppendSamples appends the unflushed samples of a series in [mintMs, maxtMs] to the two columns: ascending, each
// timestamp once.
func (i *Ingester) AppendSamples(
	ref index.Ref, mintMs, maxtMs int64, tsMs []int64, values []float64,
) ([]int64, []float64, error) {
	panic("not yet")
}

// Flush writes the whole head to the tables, syncs them and truncates the log.
func (i *Ingester) Flush(ctx context.Context) error { panic("not yet") }

// Metadata returns what senders said about a metric, newest first, or about all metrics if metric is empty; limit
// bounds the metrics, 0 means all.
func (i *Ingester) Metadata(metric string, limit int) map[string][]Metadata { panic("not yet") }

// Stats describes the ingester at this moment.
func (i *Ingester) Stats() Stats { panic("not yet") }

// Close refuses new writes, waits for those under way, flushes and syncs everything and closes the log.
func (i *Ingester) Close(ctx context.Context) error { panic("not yet") }
