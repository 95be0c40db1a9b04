package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// CloseDays makes day the last closed one and plans to compute the days that sampled returns. open is the first open day. Writes
// that saw one of these days as open reach the table before the call of sampled. Other writes wait and then see them as closed.
func (m *Manifest) CloseDays(ctx context.Context, day int64, sampled func(open int64) ([]int64, error)) ([]int64, error) {
	m.writers.Lock()
	defer m.writers.Unlock()
	days, err := sampled(m.View().Closed + 1)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record.Closed = max(m.record.Closed, day)
	for _, d := range days {
		m.record.Days[d] = WorkWhole
	}
	return days, m.saveSynced(ctx)
}

// BeginPass begins a pass over a day and returns the work of the day. FinishPass or EndPass ends it.
func (m *Manifest) BeginPass(day int64) Work {
	m.writers.Lock()
	defer m.writers.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pass = passOver(day)
	delete(m.lateWrites, day)
	return m.work(day)
}

// BeginDeletionPass begins a pass over a day that does not change the day's work. EndPass ends it.
func (m *Manifest) BeginDeletionPass(day int64) {
	m.writers.Lock()
	defer m.writers.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pass = passOver(day)
}

// EndPass ends a pass. The day's work stays.
func (m *Manifest) EndPass() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pass = noPass()
}

// FinishPass ends a pass that has computed its day. The day keeps work only if samples changed during the pass.
func (m *Manifest) FinishPass(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pass
	m.pass = noPass()
	switch {
	case p.repeat:
		m.record.Days[p.day] = WorkWhole
	case len(p.touched) > 0:
		m.record.Days[p.day] = WorkPart
	default:
		delete(m.record.Days, p.day)
	}
	if m.shared != nil {
		m.shared.computed = p.day
		defer func() { m.shared.computed = -1 }()
	}
	m.record.Months[MonthOfDay(p.day)] = true // an open month waits until it closes
	return m.saveSynced(ctx)
}

// WriteStates calls write while no series of the pass can be marked. It passes the series marked since the pass began.
// write must omit them, because their states are outdated.
func (m *Manifest) WriteStates(write func(touched map[string]struct{}) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return write(m.pass.touched)
}

// NextDay returns the newest day to compute. A day waits until it has had no late writes for the settle time, but at
// most twelve times as long.
func (m *Manifest) NextDay(now time.Time, settle time.Duration) (day int64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	days := slices.Sorted(maps.Keys(m.record.with(m.dirtyDays).Days))
	for _, day := range slices.Backward(days) {
		if m.shared != nil && !m.shared.due(day) || now.Before(m.postponed[day]) {
			continue
		}
		late, hasLate := m.lateWrites[day]
		if !hasLate || now.Sub(late.last) >= settle || now.Sub(late.first) >= 12*settle {
			return day, true
		}
	}
	return 0, false
}

// damagedDelay is the time for which the job skips a day with damaged rows, to compute other days.
const damagedDelay = time.Hour

// PostponeDamaged makes NextDay skip a day with damaged rows for some time.
func (m *Manifest) PostponeDamaged(day int64, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.postponed[day] = now.Add(damagedDelay)
}

// work is the work of a day. The caller holds mu.
func (m *Manifest) work(day int64) Work { return m.record.with(m.dirtyDays).Days[day] }

// CloseMonths closes each month whose last day is closed.
func (m *Manifest) CloseMonths(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	month := MonthOfDay(m.record.Closed+1) - 1
	if month <= m.record.ClosedMonth {
		return nil
	}
	m.record.ClosedMonth = month
	return m.saveSynced(ctx)
}

// NextMonth returns the newest closed month to compute. A month waits until all its days are computed.
func (m *Manifest) NextMonth() (month int64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	record := m.record.with(m.dirtyDays)
	months := slices.Sorted(maps.Keys(record.Months))
	for _, month := range slices.Backward(months) {
		if month <= record.ClosedMonth && !record.hasDays(month) {
			return month, true
		}
	}
	return 0, false
}

// FinishMonth ends the pass over a month, unless one of its days needs computation again.
func (m *Manifest) FinishMonth(ctx context.Context, month int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if record := m.record.with(m.dirtyDays); record.hasDays(month) {
		return nil
	}
	delete(m.record.Months, month)
	return m.saveSynced(ctx)
}

// SetDeletionHorizon records that all states reflect a deletion. It syncs the states first, because the horizon must
// not survive them.
func (m *Manifest) SetDeletionHorizon(ctx context.Context, id uint64) error {
	if err := m.store.Sync(ctx); err != nil {
		return fmt.Errorf("sync rollups: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record.DeletionHorizon = id
	return m.saveSynced(ctx)
}

// DeletionHorizon is the last deletion that all states reflect according to the job.
func (m *Manifest) DeletionHorizon() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record.DeletionHorizon
}

// recordLateWrite records n dirty series of a day. It reports whether the day's work has changed. The caller holds mu.
func (m *Manifest) recordLateWrite(day int64, n, marksMax int, now time.Time) (changed bool) {
	late, ok := m.lateWrites[day]
	if !ok {
		late.first = now
	}
	late.last = now
	m.lateWrites[day] = late
	inPass := day == m.pass.day
	if inPass && n+len(m.pass.touched) > marksMax {
		m.pass.repeat = true
	}
	before := m.record.Days[day]
	switch {
	case before == WorkWhole:
		return false
	case n > marksMax || inPass && m.pass.repeat:
		m.record.Days[day] = WorkWhole
	default:
		m.record.Days[day] = WorkPart
	}
	return m.record.Days[day] != before
}
