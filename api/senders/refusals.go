package senders

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"halite/ingest"
)

// kind identifies refusals that share a log line: requests or samples that were refused for one reason. The server defines the
// reasons, so there are few kinds.
type kind struct {
	reason  string
	samples bool
}

const (
	// logInterval is the minimum time between two log lines about one kind of refusal.
	logInterval = time.Minute
	// windowMinutes is the time over which Refusals counts.
	windowMinutes = 60
)

// refusals counts the refusals of one kind.
type refusals struct {
	minutes [windowMinutes]uint64 // by minute since 1970, modulo
	minute  int64                 // the newest minute counted
	example Example
	sender  Sender

	loggedAt time.Time
	requests uint64 // since the last log line
	count    uint64
	pending  bool // a timer will log them
}

// Refusal counts the refusals for one reason in the past hour.
type Refusal struct {
	Reason string
	// Samples is set if Count counts samples, and not requests.
	Samples bool
	Count   uint64
	// Last is the last refusal, From its sender.
	Last Example
	From Sender
}

// What returns the count in words, as in "3 write requests".
func (f *Refusal) What() string {
	unit := "write request"
	switch {
	case f.Reason == ingest.ReasonMetadataInvalid || f.Reason == ingest.ReasonMetadataLimit:
		unit = "description of a metric"
		if f.Count != 1 {
			unit = "descriptions of metrics"
		}
		return fmt.Sprintf("%d %s", f.Count, unit)
	case f.Reason == ingest.ReasonUnsupportedExemplar || f.Reason == ingest.ReasonExemplarTooLong:
		unit = "exemplar"
	case f.Reason == ingest.ReasonUnsupportedStart:
		unit = "start timestamp"
	case f.Samples:
		unit = "sample"
	}
	if f.Count != 1 {
		unit += "s"
	}
	return fmt.Sprintf("%d %s", f.Count, unit)
}

// Fix returns the fix for the last refusal.
func (f *Refusal) Fix() Fix { return FixOf(f.Reason, f.From.Protocol) }

// refuse counts a refusal. It logs the first one of a kind at once, and later ones together. The caller holds mu.
func (t *Tracker) refuse(k kind, requests, n uint64, sender Sender, example Example) {
	f := t.refusals[k]
	if f == nil {
		f = &refusals{minute: minuteOf(example.Time)}
		t.refusals[k] = f
	}
	f.advance(minuteOf(example.Time))
	f.minutes[f.minute%windowMinutes] += n
	f.example, f.sender = example, sender
	f.requests += requests
	f.count += n
	if f.pending {
		return
	}
	wait := logInterval - example.Time.Sub(f.loggedAt)
	if f.loggedAt.IsZero() || wait <= 0 {
		t.log(k, f)
		return
	}
	f.pending = true
	time.AfterFunc(wait, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		f.pending = false
		t.log(k, f)
	})
}

// log writes a line about the refusals since the last line. The caller holds mu.
func (t *Tracker) log(k kind, f *refusals) {
	text, attrs := "refused write requests", []any{"reason", k.reason, "status", f.example.Status, "requests", f.requests}
	if k.samples {
		text, attrs = "refused samples", append(attrs, "samples", f.count)
	}
	if fix := FixOf(k.reason, f.sender.Protocol); fix.Line != "" {
		attrs = append(attrs, "remedy", fix.Line)
	}
	t.logger.Warn(text, append(attrs, "sender", f.sender.Address, "user_agent", f.sender.UserAgent, "protocol", f.sender.Protocol,
		"example", f.example.Message)...)
	f.loggedAt, f.requests, f.count = t.now(), 0, 0
}

func minuteOf(at time.Time) int64 { return at.Unix() / 60 }

// advance makes minute the newest one. If the clock goes back, refusals count in the newest minute.
func (f *refusals) advance(minute int64) {
	if minute >= f.minute+windowMinutes {
		clear(f.minutes[:])
		f.minute = minute
	}
	for f.minute < minute {
		f.minute++
		f.minutes[f.minute%windowMinutes] = 0
	}
}

// Refusals returns the refusals of the past hour, the most recent first.
func (t *Tracker) Refusals() []Refusal {
	t.mu.Lock()
	defer t.mu.Unlock()
	minute := minuteOf(t.now())
	var out []Refusal
	for k, f := range t.refusals {
		f.advance(minute)
		total := uint64(0)
		for _, n := range f.minutes {
			total += n
		}
		if total > 0 {
			out = append(out, Refusal{Reason: k.reason, Samples: k.samples, Count: total, Last: f.example, From: f.sender})
		}
	}
	slices.SortFunc(out, func(a, b Refusal) int {
		return cmp.Or(b.Last.Time.Compare(a.Last.Time), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}
