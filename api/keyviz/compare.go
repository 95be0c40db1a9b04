package keyviz

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"halite/keyschema"
	"halite/storage/keyviz"
	"halite/storage/keyviz/replay"
)

// rulesBytesMax bounds the rules of a request.
const rulesBytesMax = 64 << 10

// Comparison is the response to /api/v1/keyviz/compare: the recorded load with the keys that it had, and with other keys.
type Comparison struct {
	// Keys is the number of sampled keys that stand for all.
	Keys   int  `json:"keys"`
	Before Side `json:"before"`
	After  Side `json:"after"`
}

// Side is one of the two maps.
type Side struct {
	// MaxOverMean divides the load of the hottest of 16 ranges with equally many keys by their mean load: 1 is even, 16
	// the worst.
	MaxOverMean float64  `json:"maxOverMean"`
	Heatmap     *Heatmap `json:"heatmap"`
}

// Compare answers /api/v1/keyviz/compare. The parameter rules is a list of schema rules as in /api/v1/status/schema; their
// hours do not matter. The parameter layout names other keys instead, see package replay.
func (h *Handler) Compare(r *http.Request) (any, error) {
	format, err := formatOf(r)
	if err != nil {
		return nil, err
	}
	q, err := h.request(r)
	if err != nil {
		return nil, err
	}
	rows := q.Rows
	if rows == 0 {
		rows = keyviz.RowsDefault
	}
	sample, err := h.opts.Collector.Sample(r.Context(), q)
	if err != nil {
		return nil, err
	}
	layout, err := layoutOf(r, sample)
	if err != nil {
		return nil, err
	}
	out := &Comparison{Keys: len(sample.Keys)}
	for _, side := range []struct {
		into   *Side
		layout replay.Layout
	}{{&out.Before, replay.Same}, {&out.After, layout}} {
		result := replay.Replay(sample, side.layout, rows)
		*side.into = Side{MaxOverMean: result.MaxOverMean, Heatmap: document(result.Map, 0, format)}
	}
	return out, nil
}

func layoutOf(r *http.Request, s *keyviz.Sample) (replay.Layout, error) {
	rules, name := r.FormValue("rules"), r.FormValue("layout")
	switch {
	case rules != "" && name != "":
		return nil, fmt.Errorf("%w: rules and layout cannot be combined; set one of them", ErrBadRequest)
	case name != "":
		layout, err := replay.Named(name, s)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBadRequest, err)
		}
		return layout, nil
	case rules == "":
		return nil, fmt.Errorf("%w: rules or layout is required; it defines the keys to compare with", ErrBadRequest)
	}
	schema, err := ParseRules([]byte(rules))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	return replay.Rules(schema), nil
}

// ParseRules parses a JSON list of schema rules. All of them hold from the first hour on. Rules that do not concern keys are left
// out.
func ParseRules(src []byte) (*keyschema.Schema, error) {
	if len(src) > rulesBytesMax {
		return nil, fmt.Errorf("rules have %d bytes, at most %d are allowed", len(src), rulesBytesMax)
	}
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	var rules, keys []keyschema.Rule
	if err := d.Decode(&rules); err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("rules: text follows the list")
	}
	for _, rule := range rules {
		if rule.Salts == 0 && (rule.Retention != nil || rule.MaxSeries != nil) {
			continue
		}
		rule.FromHour = 0
		keys = append(keys, rule)
	}
	schema, err := keyschema.NewSchema(keys)
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	return schema, nil
}
