package querylog

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options configures a Log. A zero field means its documented default.
type Options struct {
	// File is the path of the log of slow queries; "" means that there is none.
	File string
	// SlowerThan is the least duration of a logged query; 0 logs all queries.
	SlowerThan time.Duration
	// ActiveFile is the path of the file of active queries; "" means no file.
	ActiveFile string
	// Slots is the number of queries that may run at once, 1 or more with ActiveFile.
	Slots int

	Logger     *slog.Logger          // discards
	Registerer prometheus.Registerer // not registered
}

// queueMax is the number of lines that may wait for the disk.
const queueMax = 1024

// Log writes the log of slow queries and the file of active queries. A nil *Log writes nothing.
type Log struct {
	opts    Options
	logger  *slog.Logger
	metrics *metrics
	slots   *slots        // nil if active queries are not recorded
	lines   chan []byte   // nil without Options.File
	done    chan struct{} // closed once the last line is written
	closing sync.RWMutex  // locked for writing to close lines
	closed  bool

	mu      sync.Mutex // guards the fields below
	file    *os.File
	torn    bool // whether the last line is incomplete
	failing bool // whether the last write failed
}

// Open logs the queries that did not finish in the last run, and starts new records. A failure of the file of active queries
// does not stop the server; Open only warns. The error means that an option is bad, or that Options.File or a metric failed.
func Open(opts Options) (*Log, error) {
	l := &Log{opts: opts, logger: opts.Logger, done: make(chan struct{})}
	if l.logger == nil {
		l.logger = slog.New(slog.DiscardHandler)
	}
	if opts.SlowerThan < 0 {
		return nil, fmt.Errorf("query log: SlowerThan %s is negative", opts.SlowerThan)
	}
	var err error
	if l.metrics, err = newMetrics(opts.Registerer); err != nil {
		return nil, err
	}
	if opts.File != "" {
		if l.file, err = openLog(opts.File); err != nil {
			return nil, fmt.Errorf("open the query log: %w", err)
		}
		l.lines = make(chan []byte, queueMax)
		go l.writeLines()
	} else {
		close(l.done)
	}
	if opts.ActiveFile != "" {
		l.openActive()
	}
	return l, nil
}

func openLog(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// openActive reports the queries of the last run and starts with an empty file.
func (l *Log) openActive() {
	path := l.opts.ActiveFile
	queries, damaged, err := readActive(path)
	if err != nil {
		l.logger.Warn("cannot read the active queries of the last run", "file", path, "err", err)
	}
	if damaged > 0 {
		l.logger.Warn("ignoring damaged slots in the file of active queries", "file", path, "slots", damaged)
	}
	l.metrics.damaged.Add(float64(damaged))
	l.metrics.unfinished.Add(float64(len(queries)))
	for _, q := range queries {
		l.logger.Warn("query did not finish before the server died", "query", q.Query, "kind", q.Kind, "began", q.Time,
			"start_ms", q.StartMs, "end_ms", q.EndMs, "step_ms", q.StepMs, "client", q.Client)
		l.log(q, Outcome{Status: StatusUnfinished})
	}
	if l.slots, err = openSlots(path, max(1, l.opts.Slots)); err != nil {
		l.logger.Warn("not recording active queries", "file", path, "err", err)
	}
}

// Begin records a running query. end removes the record.
func (l *Log) Begin(q Query) (end func()) {
	if l == nil || l.slots == nil {
		return func() {}
	}
	slot, ok, err := l.slots.acquire(q)
	if err != nil {
		l.broken(err)
	}
	if !ok {
		return func() {}
	}
	return func() {
		if err := l.slots.clear(slot); err != nil {
			l.broken(err)
		}
	}
}

func (l *Log) broken(err error) {
	l.metrics.failed.Inc()
	l.logger.Warn("no longer recording active queries", "err", err)
}

// Finished logs a query if it took long enough.
func (l *Log) Finished(q Query, o Outcome) {
	if l != nil && l.lines != nil && o.Duration >= l.opts.SlowerThan {
		l.log(q, o)
	}
}

// log queues a line. It drops the line if the queue is full.
func (l *Log) log(q Query, o Outcome) {
	l.closing.RLock()
	defer l.closing.RUnlock()
	if l.lines == nil || l.closed {
		return
	}
	text, err := encodeLine(q, o)
	if err != nil {
		l.metrics.failed.Inc()
		return
	}
	select {
	case l.lines <- text:
	default:
		l.metrics.failed.Inc()
	}
}

func (l *Log) writeLines() {
	defer close(l.done)
	for text := range l.lines {
		l.write(text)
	}
}

// write appends a line. It warns only about the first of consecutive failures.
func (l *Log) write(text []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.torn {
		text = append([]byte{'\n'}, text...)
	}
	n, err := l.file.Write(text)
	if n > 0 {
		l.torn = n < len(text)
	}
	if err == nil {
		l.metrics.lines.Inc()
		l.failing = false
		return
	}
	l.metrics.failed.Inc()
	if !l.failing {
		l.logger.Warn("cannot write the query log; its lines are lost", "err", err)
	}
	l.failing = true
}

// Reopen opens the path of the log again after logrotate has renamed the file. If that fails, it keeps the old file.
func (l *Log) Reopen() error {
	if l == nil || l.lines == nil {
		return nil
	}
	f, err := openLog(l.opts.File)
	if err != nil {
		return fmt.Errorf("reopen the query log: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.file
	l.file, l.torn, l.failing = f, false, false
	return old.Close()
}

// Logs reports whether there is a log of slow queries.
func (l *Log) Logs() bool { return l != nil && l.lines != nil }

// Close writes the queued lines and removes the file of active queries.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.closing.Lock()
	if l.closed {
		l.closing.Unlock()
		return nil
	}
	l.closed = true
	if l.lines != nil {
		close(l.lines)
	}
	l.closing.Unlock()
	<-l.done
	var errs []error
	if l.file != nil {
		errs = append(errs, l.file.Close())
	}
	if l.slots != nil {
		errs = append(errs, l.slots.close())
	}
	return errors.Join(errs...)
}
