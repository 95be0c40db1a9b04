package pebble

func (s *Store) registerMetrics() error { return nil }
