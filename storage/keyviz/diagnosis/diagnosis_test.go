package diagnosis_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/storage/keyviz"
	"halite/storage/keyviz/diagnosis"
	"halite/storage/keyviz/heat"
)

const rows, columns = 64, 60

// newMap returns a heat map of one hour by minutes, with 64 series of one metric with 8 salts. load returns the count of a
// column and row.
func newMap(load func(c, r int) float64) *keyviz.Map {
	m := &keyviz.Map{
		Missing: make([]bool, columns), Touched: make([]int, columns), Ranges: make([]int, columns),
		RowsWritten: make([]float64, rows), BytesWritten: make([]float64, rows), End: "up$",
	}
	for r := range rows {
		m.Starts = append(m.Starts, fmt.Sprintf("up#%02d#host=%03d,", r/8, r))
	}
	for c := range columns {
		column := make([]float64, rows)
		for r := range column {
			column[r] = load(c, r)
		}
		m.TimesMs, m.Values = append(m.TimesMs, int64(c)*60_000), append(m.Values, column)
	}
	m.TimesMs = append(m.TimesMs, columns*60_000)
	return m
}

func even(int, int) float64 { return 100 }

// spike is even load with more in some cells.
func spike(at func(c, r int) bool, n float64) func(c, r int) float64 {
	return func(c, r int) float64 {
		if at(c, r) {
			return n
		}
		return 100
	}
}

// findCase is a heat map and its diagnosis; want is empty if there is none.
type findCase struct {
	load       func(c, r int) float64
	change     func(m *keyviz.Map)
	tombstones int
	want       string // id, level, columns, rows
	share      float64
	text       string
}

// hotCases have hot keys, at one place or moving.
func hotCases() map[string]findCase {
	return map[string]findCase{
		"even": {load: even},
		"little load": {load: func(c, r int) float64 {
			if r == 3 {
				return 1
			}
			return 0
		}},
		"hot range": {
			load: spike(func(c, r int) bool { return c >= 10 && c < 20 && r == 5 }, 5000),
			want: "hot-range warning 10-20 5-6", share: 5000.0 / (5000 + 63*100), text: "more salts",
		},
		"hot for four minutes": {load: spike(func(c, r int) bool { return c >= 10 && c < 14 && r == 5 }, 5000)},
		"hot row": {
			load: spike(func(c, r int) bool { return r == 5 }, 5000),
			change: func(m *keyviz.Map) {
				m.Starts[5], m.Starts[6] = "up#00#host=005#", "up#00#host=005$"
			},
			want: "hot-row danger 0-60 5-6", share: 5000.0 / (5000 + 63*100), text: "Salts cannot divide one series",
		},
		"sequential": {
			load: spike(func(c, r int) bool { return r == c }, 1500),
			want: "sequential-writes warning 0-60 0-60", share: 1500.0 / (1500 + 63*100), text: "Keys begin with",
		},
		"sequential downwards, slowly": {
			load: spike(func(c, r int) bool { return c >= 20 && c < 40 && r == 50-c/2 }, 1500),
			want: "sequential-writes warning 20-40 31-41", share: 1500.0 / (1500 + 63*100), text: "salts",
		},
		"hot spot that stays":     {load: spike(func(c, r int) bool { return r == 7 }, 1500)},
		"hot spot that jumps":     {load: spike(func(c, r int) bool { return r == c*37%64 }, 1500)},
		"sequential reads are ok": {load: spike(func(c, r int) bool { return r == c }, 1500), change: reads},
	}
}

// otherCases have other faults than hot keys.
func otherCases() map[string]findCase {
	return map[string]findCase{
		"full scan": {
			load: even, change: func(m *keyviz.Map) {
				reads(m)
				for c := range columns {
					m.Ranges[c], m.Touched[c] = 100, 10
				}
				m.Touched[30], m.Touched[31] = 95, 95
			},
			want: "full-scan warning 30-32 0-64", share: 0.95, text: "whole table",
		},
		"scans are usual": {load: even, change: func(m *keyviz.Map) {
			for c := range columns {
				m.Ranges[c], m.Touched[c] = 100, 90
			}
		}},
		"salts": {
			load: spike(func(c, r int) bool { return r/8 == 2 }, 700), want: "salt-skew warning 0-60 0-64", share: 0.5,
			text: "Salt 02 of up has 4.0 times",
		},
		"large rows": {
			load: even, change: func(m *keyviz.Map) { m.RowsWritten[9], m.BytesWritten[9] = 2, 2*100<<20 },
			want: "large-row warning 0-60 9-10", text: "100 MiB",
		},
		"huge rows": {
			load: even, change: func(m *keyviz.Map) { m.RowsWritten[9], m.BytesWritten[9] = 2, 2*300<<20 },
			want: "large-row danger 0-60 9-10", text: "300 MiB",
		},
		"deletions":     {load: even, tombstones: 1000, want: "tombstones warning 0-60 0-64", text: "1000 deletions"},
		"few deletions": {load: even, tombstones: 999},
		"gap": {
			load: even, change: func(m *keyviz.Map) {
				m.Missing[0], m.Missing[20], m.Missing[21], m.Missing[59] = true, true, true, true
			},
			want: "gap info 20-22 0-64", text: "2m0s",
		},
	}
}

func TestFind(t *testing.T) {
	cases := hotCases()
	maps.Copy(cases, otherCases())
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMap(c.load)
			if c.change != nil {
				c.change(m)
			}
			found := diagnosis.Find(m, c.tombstones)
			if c.want == "" {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			f := found[0]
			require.Equal(t, c.want, fmt.Sprintf("%s %s %d-%d %d-%d", f.ID, f.Level, f.FromMs/60_000, f.ToMs/60_000,
				rowOf(m, f.Start), rowOf(m, f.End)))
			require.InDelta(t, c.share, f.Share, 1e-6)
			require.Contains(t, f.Text, c.text)
		})
	}
}

func reads(m *keyviz.Map) { m.Metric = heat.ReadRows }

// rowOf is the row that starts at a key, or the number of rows for the end of the map.
func rowOf(m *keyviz.Map, key string) int {
	for r, start := range m.Starts {
		if start == key {
			return r
		}
	}
	if key == m.End {
		return rows
	}
	return -1
}

// TestWorstFirst: dangers come before warnings, and warnings before other findings.
func TestWorstFirst(t *testing.T) {
	m := newMap(spike(func(c, r int) bool { return r == 5 }, 5000))
	m.Missing[30] = true
	m.RowsWritten[9], m.BytesWritten[9] = 1, 300<<20
	var levels []diagnosis.Level
	for _, f := range diagnosis.Find(m, 2000) {
		levels = append(levels, f.Level)
	}
	require.Equal(t, []diagnosis.Level{"danger", "warning", "warning", "info"}, levels)
}
