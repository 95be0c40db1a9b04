package backup

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progressInterval is the time between two lines.
const progressInterval = 2 * time.Second

// Progress prints the progress of a command and the estimated time left. A nil Progress prints nothing.
// It may be used concurrently.
type Progress struct {
	w     io.Writer
	now   func() time.Time
	unit  string
	shift int // a unit has 2^shift bytes

	mu               sync.Mutex // guards the fields below
	totalBytes       int64
	doneBytes        int64
	began, printedAt time.Time
}

// NewProgress returns a Progress that prints MiB to w.
func NewProgress(w io.Writer, now func() time.Time) *Progress {
	return &Progress{w: w, now: now, unit: "MiB", shift: 20}
}

// NewProgressOf returns a Progress that counts another unit than bytes.
func NewProgressOf(w io.Writer, now func() time.Time, unit string) *Progress {
	return &Progress{w: w, now: now, unit: unit}
}

// Begin sets the size of the work.
func (p *Progress) Begin(totalBytes int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.totalBytes, p.doneBytes, p.began = totalBytes, 0, p.now()
	p.printedAt = p.began
}

// Skip subtracts bytes from the work.
func (p *Progress) Skip(sizeBytes int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.totalBytes -= sizeBytes
}

// Add adds bytes that are done.
func (p *Progress) Add(sizeBytes int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doneBytes += sizeBytes
	now := p.now()
	if now.Sub(p.printedAt) < progressInterval || p.doneBytes == 0 || p.totalBytes <= 0 {
		return
	}
	p.printedAt = now
	took := now.Sub(p.began)
	left := time.Duration(float64(took) * float64(max(0, p.totalBytes-p.doneBytes)) / float64(p.doneBytes))
	fmt.Fprintf(p.w, "%d of at most %d %s (%d %%), about %s left\n", p.doneBytes>>p.shift, p.totalBytes>>p.shift, p.unit,
		100*p.doneBytes/p.totalBytes, left.Round(time.Second))
}
