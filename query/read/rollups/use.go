package rollups

import (
	"slices"
	"sync"
	"time"
)

// Use describes how a selector was answered.
type Use struct {
	Selector, Reason string
	// Days and Hours count the states used. A cached join of a day's hours counts as 24 hours. Rows counts the rows that
	// were read in addition to states. Samples counts the samples of these rows and of the head.
	Days, Hours, Rows, Samples int64
	// Fallbacks counts the series that were read from samples alone.
	Fallbacks int64
	// Retired is the finest resolution that is left for the oldest retired samples; RawSamples if no samples are retired.
	Retired Resolution
}

// Tier names the data that was read: raw, hours, days, or hours and days.
func (u *Use) Tier() string {
	switch {
	case u.Days > 0 && u.Hours > 0:
		return "hours and days"
	case u.Days > 0:
		return "days"
	case u.Hours > 0:
		return "hours"
	}
	return "raw"
}

// Resolution is the resolution of a result.
type Resolution uint8

// The resolutions, from fine to coarse.
const (
	RawSamples Resolution = iota
	HourlyStates
	DailyStates
)

// uses collects the uses of a session.
type uses struct {
	mu  sync.Mutex
	all []Use
}

// Note records how a selector was answered.
func (s *Session) Note(u Use) {
	s.uses.mu.Lock()
	defer s.uses.mu.Unlock()
	s.uses.all = append(s.uses.all, u)
}

// Uses lists the recorded uses. It returns none if the session is nil.
func (s *Session) Uses() []Use {
	if s == nil {
		return nil
	}
	s.uses.mu.Lock()
	defer s.uses.mu.Unlock()
	return slices.Clone(s.uses.all)
}

// Retirement is the warning that a result comes from states because samples are retired.
type Retirement struct {
	Resolution Resolution
	BeforeMs   int64
}

func (r *Retirement) Error() string {
	states := "hourly"
	if r.Resolution == DailyStates {
		states = "daily"
	}
	return "answered from " + states + " states: raw samples before " +
		time.UnixMilli(r.BeforeMs).UTC().Format(time.RFC3339) + " are retired"
}
