package ranges

// MinuteMs is the shortest span of a column, in milliseconds.
const MinuteMs = 60_000

// Level is a resolution of columns.
type Level struct {
	// SpanMs is the time of a column, a multiple of MinuteMs.
	SpanMs int64
	// Keep is the number of columns that the level keeps.
	Keep int64
}

// FirstMs returns the start of the oldest column that the level keeps.
func (l Level) FirstMs(nowMs int64) int64 { return nowMs - nowMs%l.SpanMs - (l.Keep-1)*l.SpanMs }

// columnOf returns start and span of the column for a time. It uses the first level that still keeps the time. So a
// backfill of a month has a thousand columns, not one for each minute. All times that no level keeps share a column, which
// starts at 0.
func columnOf(levels []Level, tsMs, nowMs int64) (startMs, spanMs int64) {
	firstMs := int64(0)
	for _, l := range levels {
		firstMs = l.FirstMs(nowMs)
		if startMs = tsMs - tsMs%l.SpanMs; startMs >= firstMs {
			return startMs, l.SpanMs
		}
	}
	return 0, firstMs
}
