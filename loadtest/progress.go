package loadtest

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const (
	barEvery  = 200 * time.Millisecond // on a terminal
	lineEvery = 5 * time.Second        // elsewhere
	barCells  = 30
)

// progress shows the progress of a phase. Its methods are safe for concurrent use.
type progress struct {
	w        io.Writer
	terminal bool
	now      func() time.Time

	mu    sync.Mutex
	drawn bool // the cursor is at the end of a bar
}

// status returns the progress of a phase: how much is done, the total or 0 if it is unknown, and a text.
type status func() (done, total float64, text string)

// phase shows the status of a phase until stop is called.
func (p *progress) phase(name string, s status) (stop func()) {
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
				p.show(name, p.now().Sub(began), s)
			}
		}
	}()
	return func() {
		close(end)
		<-ended
		if p.terminal {
			p.show(name, p.now().Sub(began), s)
			p.line("")
		}
	}
}

func (p *progress) show(name string, took time.Duration, s status) {
	done, total, text := s()
	if p.terminal {
		p.write("\r\x1b[K"+drawBar(name, done, total, took, text), true)
		return
	}
	p.write(statusLine(name, done, total, took, text)+"\n", false)
}

// line writes a line below the bar. An empty line only ends the bar.
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
	// An error must not end the load: progress is not part of the report.
	_, _ = io.WriteString(p.w, text)
}

// remaining estimates the remaining time from the time taken so far.
func remaining(done, total float64, took time.Duration) (time.Duration, bool) {
	if done <= 0 || total <= 0 {
		return 0, false
	}
	return time.Duration(float64(took) * max(total-done, 0) / done), true
}

func drawBar(name string, done, total float64, took time.Duration, text string) string {
	left, known := remaining(done, total, took)
	if !known {
		return fmt.Sprintf("%-8s %s %s", name, took.Round(time.Second), text)
	}
	share := min(done/total, 1)
	full := int(share * barCells)
	bar := strings.Repeat("█", full) + strings.Repeat("░", barCells-full)
	return fmt.Sprintf("%-8s %s %3.0f%% ETA %s  %s", name, bar, share*100, left.Round(time.Second), text)
}

func statusLine(name string, done, total float64, took time.Duration, text string) string {
	if left, known := remaining(done, total, took); known {
		return fmt.Sprintf("%s %.0f%% after %s, ETA %s: %s", name, min(done/total, 1)*100, took.Round(time.Second),
			left.Round(time.Second), text)
	}
	return fmt.Sprintf("%s after %s: %s", name, took.Round(time.Second), text)
}
