package columnar

import "sync"

// Memory keeps the slices that plans have worked with for those that come after them. It is safe for concurrent use; nil
// keeps nothing.
type Memory struct{ rows sync.Pool }

// get returns an empty slice of some capacity.
func (m *Memory) get() []float64 {
	if m == nil {
		return nil
	}
	if rows, ok := m.rows.Get().(*[]float64); ok {
		return *rows
	}
	return nil
}

// put takes a slice back; nobody may use it any more.
func (m *Memory) put(rows []float64) {
	if m != nil && cap(rows) > 0 {
		rows = rows[:0]
		m.rows.Put(&rows)
	}
}
