package transfer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"halite/ingest"
	"halite/storage/periodic"
)

// Writer stores requests; *ingest.Ingester is one.
type Writer interface {
	Write(ctx context.Context, in ingest.Input) (ingest.Result, error)
}

// Local is a database that this process has opened.
type Local struct {
	Dir       string
	Writer    Writer
	Queryable promstorage.Queryable
}

// Name implements Sink.
func (l *Local) Name() string {
	dir, err := filepath.Abs(l.Dir)
	if err != nil {
		dir = l.Dir
	}
	return "directory " + dir
}

// Write implements Sink. It waits while the writer is overloaded.
func (l *Local) Write(ctx context.Context, p *Part) (ingest.Result, error) {
	for {
		result, err := l.Writer.Write(ctx, ingest.Input{Parse: p.copyTo})
		overload := new(ingest.OverloadError)
		if err == nil || !errors.As(err, &overload) {
			return result, err
		}
		if err := periodic.Sleep(ctx, overload.RetryAfter); err != nil {
			return result, err
		}
	}
}

// Read implements Reader.
func (l *Local) Read(ctx context.Context, fromMs, toMs int64, matchers []*labels.Matcher,
	visit func(ls labels.Labels, it chunkenc.Iterator) error,
) (err error) {
	querier, err := l.Queryable.Querier(fromMs, toMs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, querier.Close()) }()
	var it chunkenc.Iterator
	set := querier.Select(ctx, true, &promstorage.SelectHints{Start: fromMs, End: toMs}, matchers...)
	for set.Next() {
		series := set.At()
		it = series.Iterator(it)
		if err := visit(series.Labels(), it); err != nil {
			return fmt.Errorf("series %s: %w", series.Labels(), err)
		}
	}
	return set.Err()
}
