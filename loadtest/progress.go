package loadtest

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// How often progress is shown on a terminal, and told as a line elsewhere.
const (
	barEvery  = 200 * time.Millisecond
	lineEvery = 5 * time.Second
	barCells  = 30
)

// progress tells how far a phase is. Its methods are safe for concurrent use.
type progress struct {
	w        io.Writer
	terminal bool
	now      func() time.Time

	mu    sync.Mutex
	drawn bool // the cursor stands behind a bar
}

// look is what a phase says about itself: done of all (0 if nobody knows), and a text.
type look func() (done, all float64, text string)

// phase shows a phase until stop is called.
func (p *progress) phase(name string, l look) (stop func()) {
	every := lineEvery
	if p.terminal {
		every = barEvery
	}
	began := p.now()
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-end:
				return
			case <-ticker.C:
				p.show(name, p.now().Sub(began), l)
			}
		}
	}()
	return func() {
		close(end)
		<-ended
		if p.terminal {
			p.show(name, p.now().Sub(began), l)
			p.line("")
		}
	}
}

func (p *progress) show(name string, took time.Duration, l look) {
	done, all, text := l()
	if p.terminal {
		p.write("\r\x1b[K"+drawBar(name, done, all, took, text), true)
		return
	}
	p.write(tellLine(name, done, all, took, text)+"\n", false)
}

// line writes a line of its own; an empty one only ends a bar.
func (p *progress) line(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	p.mu.Lock()
	drawn := p.drawn
	p.mu.Unlock()
	if drawn {
		p.write("\n", false)
	}
	if text != "" {
		p.write(text+"\n", false)
	}
}

func (p *progress) write(text string, drawn bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drawn = drawn
	// Progress that cannot be shown must not end the load; the report goes elsewhere.
	_, _ = io.WriteString(p.w, text)
}

// eta is how long the rest takes if it goes on like this.
func eta(done, all float64, took time.Duration) (time.Duration, bool) {
	if done <= 0 || all <= 0 {
		return 0, false
	}
	return time.Duration(float64(took) * max(all-done, 0) / done), true
}

func drawBar(name string, done, all float64, took time.Duration, text string) string {
	left, known := eta(done, all, took)
	if !known {
		return fmt.Sprintf("%-8s %s %s", name, took.Round(time.Second), text)
	}
	share := min(done/all, 1)
	full := int(share * barCells)
	bar := strings.Repeat("█", full) + strings.Repeat("░", barCells-full)
	return fmt.Sprintf("%-8s %s %3.0f%% ETA %s  %s", name, bar, share*100, left.Round(time.Second), text)
}

func tellLine(name string, done, all float64, took time.Duration, text string) string {
	if left, known := eta(done, all, took); known {
		return fmt.Sprintf("%s %.0f%% after %s, ETA %s: %s", name, min(done/all, 1)*100, took.Round(time.Second),
			left.Round(time.Second), text)
	}
	return fmt.Sprintf("%s after %s: %s", name, took.Round(time.Second), text)
}
