package transfer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"halite/cmd/tsdb/internal/datadir"
)

// stateVersion is the version of the state file.
const stateVersion = 1

// State is the progress of an import.
type State struct {
	Version int    `json:"version"`
	From    string `json:"from"`
	To      string `json:"to"`
	// Position: the samples before it are durable.
	Position Position `json:"position"`
	// Imported is set when all samples are durable.
	Imported bool   `json:"imported"`
	Counts   Counts `json:"counts"`
}

// Counts are samples, native histograms included.
type Counts struct {
	Read   int64 `json:"read"`
	Stored int64 `json:"stored"`
	// Rejected are samples that the destination refused, and lines that are malformed, by reason.
	Rejected map[string]int64 `json:"rejected,omitempty"`
	// Altered are values that the format allows but the database skips or rounds, by reason. They are not errors.
	Altered map[string]int64 `json:"altered,omitempty"`
	// First is the first rejection in full.
	First string `json:"first,omitempty"`
}

// rejected is the number of samples that were rejected.
func (c *Counts) rejected() (n int64) {
	for _, count := range c.Rejected {
		n += count
	}
	return n
}

// readState returns the state in a file, or begun if the file does not exist.
func readState(file string, begun State) (state State, found bool, err error) {
	src, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return begun, false, nil
	}
	if err != nil {
		return begun, false, err
	}
	if state, err = parseState(src); err != nil {
		return begun, false, fmt.Errorf("%s is not the state of an import: %w: delete it to begin again", file, err)
	}
	if state.From != begun.From || state.To != begun.To {
		if state.Counts.Read == 0 {
			return begun, false, nil // that import did not reach its source
		}
		return begun, false, fmt.Errorf("%s belongs to an import from %s to %s: finish that one, delete the file to give it up, or "+
			"name another --state", file, state.From, state.To)
	}
	return state, true, nil
}

func parseState(src []byte) (s State, err error) {
	if err := json.Unmarshal(src, &s); err != nil {
		return s, err
	}
	p := s.Position
	switch {
	case s.Version != stateVersion:
		err = fmt.Errorf("version %d, this build knows %d", s.Version, stateVersion)
	case s.Counts.Read < 0 || s.Counts.Stored < 0 || p.Series < 0 || p.Bytes < 0 || p.Lines < 0 || p.NowMs < 0:
		err = errors.New("it has a number below 0")
	}
	return s, err
}

func writeState(file string, s *State) error {
	src, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return datadir.WriteFile(file, append(src, '\n'))
}
