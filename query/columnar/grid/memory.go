package grid

import "sync"

// Memory keeps the slices of finished plans for reuse. It is safe for concurrent use. A nil Memory keeps nothing.
type Memory struct{ rows sync.Pool }

// Get returns an empty slice with some capacity.
func (m *Memory) Get() []float64 {
	if m == nil {
		return nil
	}
	if rows, ok := m.rows.Get().(*[]float64); ok {
		return *rows
	}
	return nil
}

// Put keeps a slice for a later Get. The caller must not use the slice afterwards.
func (m *Memory) Put(rows []float64) {
	if m != nil && cap(rows) > 0 {
		rows = rows[:0]
		m.rows.Put(&rows)
	}
}

// Arena allocates rows that are freed together.
type Arena struct {
	Memory *Memory
	slabs  [][]float64
	free   []float64 // rest of the last slab
	rows   int
}

// slabRows is the largest number of rows in one allocation. Allocations grow with the number of rows already used.
const slabRows = 64

// Row returns memory for n numbers with any values.
func (a *Arena) Row(n int) []float64 {
	if len(a.free) < n {
		slab := a.Memory.Get()
		if cap(slab) < n {
			slab = make([]float64, n*min(slabRows, a.rows+1))
		}
		a.free = slab[:cap(slab)]
		a.slabs = append(a.slabs, slab)
	}
	a.rows++
	row := a.free[:n:n]
	a.free = a.free[n:]
	return row
}

// Release frees all rows. The caller must not use them afterwards.
func (a *Arena) Release() {
	for _, s := range a.slabs {
		a.Memory.Put(s)
	}
	a.slabs, a.free = nil, nil
}
