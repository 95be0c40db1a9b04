package pebble

import (
	"context"

	"halite/storage"
)

type tablets struct{}

func newTablets(*Table) *tablets                { return &tablets{} }
func (ts *tablets) restore([][]byte)            {}
func (ts *tablets) wrote([]storage.RowMutation) {}

type loadMeter struct{}

func (m *loadMeter) init(*tablets, bool) {}
func (m *loadMeter) read([]byte, int)    {}
func (m *loadMeter) flush()              {}

func (s *Store) maintainTablets(context.Context) error { return nil }

func (t *Table) Tablets(context.Context) ([]storage.Tablet, error) {
	return []storage.Tablet{{}}, nil
}
