package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"halite/cmd/tsdb/internal/backup"
	"halite/ingest"
)

// Options configure an import.
type Options struct {
	// StateFile is the file with the progress of the import.
	StateFile string
	// Writers is the number of concurrent writers.
	Writers int
	// SkipExpired leaves out samples older than the retention. Without it, a source with such samples is refused.
	SkipExpired bool
	// NoVerify leaves out the comparison at the end.
	NoVerify bool
	// Quiet prints no progress.
	Quiet bool
	// Out is where messages for people go.
	Out io.Writer
	// Size describes the source.
	Size Size
}

// stateInterval is the time between two writes of the state file.
const stateInterval = time.Second

// ErrRejected means that the destination refused samples. Everything else is stored.
var ErrRejected = errors.New("some samples were rejected")

// ErrExpired means that a source has samples that are older than the retention.
var ErrExpired = errors.New("the retention would drop samples")

// Import writes the samples of a source to a sink and compares them at the end.
func Import(ctx context.Context, from Source, to Sink, o Options) error {
	state, found, err := readState(o.StateFile, State{Version: stateVersion, From: from.Name(), To: to.Name()})
	if err != nil {
		return err
	}
	if found {
		fmt.Fprintf(o.Out, "Continuing after %d samples of an earlier run.\n", state.Counts.Read)
	}
	began := time.Now()
	m := &importer{options: o, sink: to, state: state, began: began, before: state.Counts.Read}
	if !state.Imported {
		if err := m.run(ctx, from, o.Size); err != nil {
			return err
		}
	}
	m.report()
	if !o.NoVerify {
		if err := Verify(ctx, from, to, &m.state, o.Out); err != nil {
			return err
		}
	}
	if err := os.Remove(o.StateFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	refused := m.state.Counts.rejected()
	if o.SkipExpired {
		refused -= m.state.Counts.Rejected[ingest.ReasonBeforeRetention]
	}
	if refused > 0 {
		return ErrRejected
	}
	return nil
}

// importer is one import.
type importer struct {
	options Options
	sink    Sink
	began   time.Time
	before  int64 // samples that an earlier run read

	mu       sync.Mutex // guards the fields below
	state    State
	progress *backup.Progress
	done     int64         // of the source
	written  map[int]*Part // durable parts after a part that is not durable, by sequence
	next     int           // sequence of the first part that is not durable
	saved    time.Time
}

// run writes all parts from the state's position on.
func (m *importer) run(ctx context.Context, from Source, size Size) error {
	m.written = make(map[int]*Part)
	if size.Total > 0 && !m.options.Quiet {
		m.progress = backup.NewProgressOf(m.options.Out, time.Now, size.Unit)
		m.progress.Begin(size.Total - m.before)
	}
	parts := make(chan *Part)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(parts)
		sequence := 0
		return from.Parts(ctx, m.state.Position, func(p *Part) error {
			p.sequence = sequence
			sequence++
			select {
			case parts <- p:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	for range cmp.Or(m.options.Writers, 1) {
		group.Go(func() error {
			for p := range parts {
				result, err := m.sink.Write(ctx, p)
				if err != nil {
					return err
				}
				if err := m.finish(p, &result); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := group.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Imported = err == nil
	return errors.Join(err, writeState(m.options.StateFile, &m.state))
}

// finish records that a part is durable.
func (m *importer) finish(p *Part, result *ingest.Result) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	expired := result.Reasons[ingest.ReasonBeforeRetention]
	if expired > 0 && !m.options.SkipExpired {
		return fmt.Errorf("%w: %s; --skip-expired imports the other samples", ErrExpired, result.First)
	}
	p.result = *result
	m.written[p.sequence] = p
	for {
		p, ok := m.written[m.next]
		if !ok {
			break
		}
		delete(m.written, m.next)
		m.next++
		m.count(p)
		m.state.Position = p.After
		if m.progress != nil {
			m.progress.Add(p.Done - m.done)
		}
		m.done = p.Done
		p.release()
	}
	if now := time.Now(); now.Sub(m.saved) >= stateInterval {
		m.saved = now
		return writeState(m.options.StateFile, &m.state)
	}
	return nil
}

// count adds the samples of a part.
func (m *importer) count(p *Part) {
	c, result := &m.state.Counts, &p.result
	for _, r := range p.Rejections() {
		if r.Silent {
			c.Altered = add(c.Altered, r.Reason, r.Count)
			continue
		}
		detail := r.Detail
		if p.linesBefore > 0 {
			detail = fmt.Sprintf("after line %d: %s", p.linesBefore, detail)
		}
		c.reject(r.Reason, r.Count, detail)
		c.Read += int64(r.Count)
	}
	for reason, n := range result.Reasons {
		c.reject(reason, n, result.First)
	}
	c.Read += int64(p.samples())
	c.Stored += int64(result.Accepted + result.Histograms)
}

func (c *Counts) reject(reason string, n int, detail string) {
	c.Rejected = add(c.Rejected, reason, n)
	c.First = cmp.Or(c.First, detail)
}

// add adds to the count of a reason.
func add(counts map[string]int64, reason string, n int) map[string]int64 {
	if counts == nil {
		counts = make(map[string]int64)
	}
	counts[reason] += int64(n)
	return counts
}

// reasons lists counts by reason.
func reasons(counts map[string]int64) string {
	var list []string
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%s: %d", reason, counts[reason]))
	}
	return strings.Join(list, ", ")
}

// report prints the counts.
func (m *importer) report() {
	took := time.Since(m.began)
	c := &m.state.Counts
	fmt.Fprintf(m.options.Out, "Read %d samples and stored %d, %.0f samples/s.\n", c.Read, c.Stored,
		float64(c.Read-m.before)/max(took.Seconds(), 1e-3))
	if len(c.Altered) > 0 {
		fmt.Fprintf(m.options.Out, "Values that the format allows but the database skips or rounds: %s.\n", reasons(c.Altered))
	}
	if rejected := c.rejected(); rejected > 0 {
		fmt.Fprintf(m.options.Out, "Rejected %d samples (%s); first: %s\n", rejected, reasons(c.Rejected), c.First)
	}
}
