package direct

import (
	"halite/ingest/ingesttest"
	"halite/keyschema"
)

const (
	dayMs   = keyschema.DayMs
	startMs = ingesttest.StartMs // of the clock
)
