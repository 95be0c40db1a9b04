package store

import (
	"encoding/binary"
	"fmt"

	"halite/keyschema"
	"halite/rollup"
	"halite/rollup/cell"
	"halite/storage"
)

// Kinds of cells. The bytes are stored: never change them. In the family of hours, the day of the month precedes them.
const (
	kindHistograms = 'n' // native histograms; only with states of hours
	kindStates     = 's'
	kindHorizon    = 't' // the deletion horizon of the states
	kindMark       = 'x' // followed by the hour or day: its state is dirty unless the value is MarkClean
)

// Values of marks. They are stored: never change them.
const (
	MarkClean = 0
	MarkDirty = 1
	// MarkGone marks the state of a removed row. Retention removes rows without marks.
	MarkGone = 2
)

// MarkBytes is the length of a mark's qualifier in the family of hours. Several processes make timed marks.
const (
	MarkBytes      = 3
	timedMarkBytes = MarkBytes + 8 + 4
)

// StatesQualifier names the states of the hours of a day of the month, counted from 1.
func StatesQualifier(dayOfMonth int) []byte { return []byte{byte(dayOfMonth), kindStates} }

// HistogramsQualifier names the native histograms of the hours of a day of the month. An empty cell has none.
func HistogramsQualifier(dayOfMonth int) []byte { return []byte{byte(dayOfMonth), kindHistograms} }

// MarkQualifier names the mark of an hour.
func MarkQualifier(dayOfMonth, hour int) []byte {
	return []byte{byte(dayOfMonth), kindMark, byte(hour)}
}

// HorizonQualifier names the deletion horizon of the hours of a day of the month.
func HorizonQualifier(dayOfMonth int) []byte { return []byte{byte(dayOfMonth), kindHorizon} }

// DaysQualifier names the states of a month's days.
func DaysQualifier() []byte { return []byte{kindStates} }

// DaysHorizonQualifier names the deletion horizon of a month's days.
func DaysHorizonQualifier() []byte { return []byte{kindHorizon} }

// DayMarkQualifier names the mark of a day of the month.
func DayMarkQualifier(dayOfMonth int) []byte { return []byte{kindMark, byte(dayOfMonth)} }

// IsStates reports whether a qualifier in the family of hours names the states of a day's hours.
func IsStates(qualifier []byte) bool { return len(qualifier) == 2 && qualifier[1] == kindStates }

// IsHistograms reports whether a qualifier in the family of hours names the native histograms of a day's hours.
func IsHistograms(qualifier []byte) bool {
	return len(qualifier) == 2 && qualifier[1] == kindHistograms
}

// IsDays reports whether a cell holds the states of a month's days.
func IsDays(c *storage.Cell) bool {
	return c.Family == storage.FamilyDays && len(c.Qualifier) == 1 && c.Qualifier[0] == kindStates
}

// IsMark reports whether a qualifier in the family of hours names the mark of an hour.
func IsMark(qualifier []byte) bool {
	return (len(qualifier) == MarkBytes || len(qualifier) == timedMarkBytes) && qualifier[1] == kindMark &&
		qualifier[2] < keyschema.DayHours
}

// IsDayMark reports whether a qualifier in the family of days names the mark of a day in a month of the given length.
func IsDayMark(qualifier []byte, days int) bool {
	return len(qualifier) == 2 && qualifier[0] == kindMark && qualifier[1] >= 1 && int(qualifier[1]) <= days
}

// IsDirty reports whether the value of a mark makes the state dirty. An unreadable value does.
func IsDirty(value []byte) bool { return len(value) != 1 || value[0] != MarkClean }

// IsHorizon reports whether a cell holds the deletion horizon of a day's hours, or of a month's days.
func IsHorizon(c *storage.Cell) bool {
	if c.Family == storage.FamilyDays {
		return len(c.Qualifier) == 1 && c.Qualifier[0] == kindHorizon
	}
	return len(c.Qualifier) == 2 && c.Qualifier[1] == kindHorizon
}

// HorizonValue encodes a deletion horizon.
func HorizonValue(id uint64) []byte { return binary.AppendUvarint(nil, id) }

// ParseHorizon decodes a deletion horizon. For unreadable bytes it returns 0, which is before all deletions.
func ParseHorizon(value []byte) uint64 {
	id, n := binary.Uvarint(value)
	if n != len(value) {
		return 0
	}
	return id
}

// CheckCell verifies that a cell of TableRollup belongs to its row. It accepts all marks and deletion horizons.
func CheckCell(row []byte, stored *storage.Cell) error {
	_, month, ok := keyschema.CutMonth(row)
	if !ok {
		return fmt.Errorf("%w: table %s has row %q", storage.ErrCorrupt, storage.TableRollup, row)
	}
	q := stored.Qualifier
	if stored.Family == storage.FamilyHours && IsHistograms(q) {
		if _, err := new(histogramReader).decode(row, stored, nil); err != nil {
			return fmt.Errorf("%w: table %s, row %q: %w", storage.ErrCorrupt, storage.TableRollup, row, err)
		}
		return nil
	}
	if len(q) == 0 || q[len(q)-1] != kindStates {
		return nil
	}
	first, unitMs, n := MonthStart(month), int64(dayMs), int(MonthStart(month+1)-MonthStart(month))
	if stored.Family == storage.FamilyHours {
		first, unitMs, n = stored.TsMs/dayMs, keyschema.HourMs, keyschema.DayHours
	}
	var decoder cell.Decoder
	var c rollup.Columns
	c.Reset(first*dayMs, unitMs, n, rollup.FieldsAll)
	if _, err := decoder.Decode(&c, row, q, stored.Value, first*dayMs, n); err != nil {
		return fmt.Errorf("%w: table %s, row %q: %w", storage.ErrCorrupt, storage.TableRollup, row, err)
	}
	return nil
}
